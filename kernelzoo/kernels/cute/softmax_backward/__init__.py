"""The gradient of a softmax in CuTe, a form a file; ``choose`` says which form takes a problem."""
