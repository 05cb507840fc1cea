"""Running sums on the host, in Numba."""
