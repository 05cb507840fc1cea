"""Code that gradients share in CUDA C++: each form's kernel for any operation, over rows or columns."""
