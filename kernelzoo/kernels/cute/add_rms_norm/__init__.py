"""Residuals added and normed in CuTe."""
