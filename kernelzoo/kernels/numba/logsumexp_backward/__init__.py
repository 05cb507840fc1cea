"""Gradients of logarithms of sums of exponentials in Numba CUDA."""
