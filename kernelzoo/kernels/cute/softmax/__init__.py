"""Softmax in CuTe, a form a file; ``choose`` says which form takes a problem."""
