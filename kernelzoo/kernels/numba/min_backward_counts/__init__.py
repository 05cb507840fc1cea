"""How many minima rows have, in Numba."""
