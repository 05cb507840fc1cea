"""RMS norms on the host, in Numba."""
