"""One call of a backend: its methods, the launches that it keeps, and what torch sees of it."""
