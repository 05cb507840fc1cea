"""Pairs of a softmax's rows from those of their parts, in Numba."""
