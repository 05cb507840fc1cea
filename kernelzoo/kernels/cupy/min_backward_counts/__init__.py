"""How many minima rows have, in CUDA C."""
