"""The gradient of a softmax in CUDA C++: a form a file, its kernels beside it; ``choose.py`` picks a form."""
