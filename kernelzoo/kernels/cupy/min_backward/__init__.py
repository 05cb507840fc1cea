"""The gradient of a minimum in CUDA C++: a form a file, its kernels beside it; ``choose.py`` picks a form."""
