"""Gradients of layer norms in Numba CUDA."""
