"""CUDA C++ kernels that the gradients of several operations share, over rows or columns."""
