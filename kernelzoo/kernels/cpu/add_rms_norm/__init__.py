"""Residuals added and normed on the host, in Numba."""
