"""Sums in Triton."""
