"""How one call runs: the backend's methods, its cached launches, gradients, and operations registered with torch."""
