"""How many minima rows have, on the host, in Numba."""
