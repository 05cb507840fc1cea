"""Gradients of logarithms of sums of exponentials in CuTe."""
