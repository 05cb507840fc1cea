"""Sums on the host, in Numba."""
