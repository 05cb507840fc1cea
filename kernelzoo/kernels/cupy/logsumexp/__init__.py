"""Logarithms of sums of exponentials in CUDA C."""
