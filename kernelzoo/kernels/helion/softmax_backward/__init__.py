"""The gradient of a softmax in Helion, a form a file; ``choose`` says which form takes a problem."""
