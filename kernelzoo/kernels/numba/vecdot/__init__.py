"""Dot products of rows, in Numba."""
