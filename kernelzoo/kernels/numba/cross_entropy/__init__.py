"""Cross entropies in Numba CUDA."""
