"""Gradients of logarithms of sums of exponentials on the host, in Numba."""
