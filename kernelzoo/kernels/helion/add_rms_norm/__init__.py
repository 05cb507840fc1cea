"""Residuals added and normed in Helion."""
