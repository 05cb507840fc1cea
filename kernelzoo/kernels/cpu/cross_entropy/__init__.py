"""Cross entropies on the host, in Numba."""
