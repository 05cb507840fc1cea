"""Places of minima in Numba CUDA."""
