"""The gradient of a minimum in Gluon, a form a file; ``choose`` says which form takes a problem."""
