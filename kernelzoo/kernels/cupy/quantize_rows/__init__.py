"""Rows quantised to 8-bit floating point in CUDA C."""
