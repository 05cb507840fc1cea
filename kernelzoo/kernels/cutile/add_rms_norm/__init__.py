"""Residuals added and normed in cuTile."""
