"""Pairs of a softmax's rows from those of their parts, on the host, in Numba."""
