"""The minimum along an axis in Helion, a form a file; ``choose`` says which form takes a problem."""
