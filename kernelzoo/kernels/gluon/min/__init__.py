"""The minimum along an axis in Gluon, a form a file; ``choose`` says which form takes a problem."""
