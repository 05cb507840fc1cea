"""Residuals added and normed in CUDA C."""
