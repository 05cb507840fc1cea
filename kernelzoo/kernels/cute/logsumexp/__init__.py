"""Logarithms of sums of exponentials in CuTe."""
