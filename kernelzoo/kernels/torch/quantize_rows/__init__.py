"""Quantised rows in torch."""
