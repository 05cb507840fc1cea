"""The minimum on the host, in Numba."""
