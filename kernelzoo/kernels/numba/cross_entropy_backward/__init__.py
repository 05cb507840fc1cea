"""Gradients of cross entropies in Numba CUDA."""
