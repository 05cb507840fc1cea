"""Logarithms of sums of exponentials on the host, in Numba."""
