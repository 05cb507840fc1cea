"""The gradient of a minimum in Helion, a form a file; ``choose`` says which form takes a problem."""
