"""Logarithms of sums of exponentials in Helion."""
