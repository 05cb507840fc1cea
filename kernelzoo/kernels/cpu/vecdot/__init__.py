"""Dot products of rows, on the host, in Numba."""
