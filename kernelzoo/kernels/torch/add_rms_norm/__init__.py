"""Residuals added and normed in torch."""
