"""Residuals added and normed in Gluon."""
