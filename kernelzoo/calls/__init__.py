"""The path of one call: a backend's methods, its cached launches, and what torch sees of the call."""
