"""Gradients of cross entropies on the host, in Numba."""
