"""Layer norms in Numba CUDA."""
