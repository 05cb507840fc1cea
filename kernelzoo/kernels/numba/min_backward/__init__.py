"""The gradient of a minimum in Numba CUDA: a file a form, and choose.py, which knows the right one for a problem."""
