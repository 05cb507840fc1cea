"""The gradient of a softmax in cuTile, a form a file; ``choose`` says which form takes a problem."""
