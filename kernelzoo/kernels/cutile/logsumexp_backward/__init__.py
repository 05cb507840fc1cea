"""Gradients of logarithms of sums of exponentials in cuTile."""
