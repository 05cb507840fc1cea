"""Sums in CUDA C++."""
