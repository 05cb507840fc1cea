"""The gradient of a softmax in Triton, a form a file; ``choose`` says which form takes a problem."""
