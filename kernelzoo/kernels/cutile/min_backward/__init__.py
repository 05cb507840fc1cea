"""The gradient of a minimum in cuTile, a form a file; ``choose`` says which form takes a problem."""
