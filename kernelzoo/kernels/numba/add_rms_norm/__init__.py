"""Residuals added and normed in Numba CUDA."""
