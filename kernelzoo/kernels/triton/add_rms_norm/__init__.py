"""Residuals added and normed in Triton."""
