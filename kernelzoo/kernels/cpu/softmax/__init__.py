"""Softmax on the host, in Numba."""
