"""Logarithms of sums of exponentials in torch."""
