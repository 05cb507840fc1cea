"""Running sums in Numba CUDA."""
