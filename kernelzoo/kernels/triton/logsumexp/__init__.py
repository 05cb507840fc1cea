"""Logarithms of sums of exponentials in Triton."""
