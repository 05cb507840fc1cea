"""Layer norms on the host, in Numba."""
