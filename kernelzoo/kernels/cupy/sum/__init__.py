"""Sums in CUDA C."""
