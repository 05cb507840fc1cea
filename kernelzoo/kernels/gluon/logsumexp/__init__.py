"""Logarithms of sums of exponentials in Gluon."""
