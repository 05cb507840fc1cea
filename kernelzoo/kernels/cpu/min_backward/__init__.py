"""The gradient of a minimum on the host, in Numba."""
