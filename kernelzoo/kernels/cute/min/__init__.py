"""The minimum along an axis in CuTe, a form a file; ``choose`` says which form takes a problem."""
