"""Pairs of a softmax's rows, on the host, in Numba."""
