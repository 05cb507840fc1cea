"""Places of minima on the host, in Numba."""
