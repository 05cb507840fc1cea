"""Logarithms of sums of exponentials in cuTile."""
