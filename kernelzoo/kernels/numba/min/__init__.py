"""The minimum in Numba CUDA: the same forms as in the other languages, over the threads of a block."""
