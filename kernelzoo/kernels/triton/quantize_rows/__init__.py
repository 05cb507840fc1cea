"""Quantised rows in Triton."""
