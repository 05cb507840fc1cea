"""RMS norms in Numba CUDA."""
