"""Logarithms of sums of exponentials in Numba CUDA."""
