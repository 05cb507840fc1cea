"""What the gradients share in CUDA C++: each form's kernel for any operation, and how it takes rows or columns."""
