"""Gradients of RMS norms on the host, in Numba."""
