"""Quantised rows on the host, in Numba."""
