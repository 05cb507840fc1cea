"""The gradient of a minimum in Triton, a form a file; ``choose`` says which form takes a problem."""
