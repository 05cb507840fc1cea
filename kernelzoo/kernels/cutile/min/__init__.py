"""The minimum along an axis in cuTile, a form a file; ``choose`` says which form takes a problem."""
