"""Gradients of layer norms on the host, in Numba."""
