"""Gradients of RMS norms in Numba CUDA."""
