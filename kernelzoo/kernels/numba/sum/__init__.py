"""Sums in Numba CUDA."""
