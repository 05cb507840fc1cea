"""Quantised rows in cuTile."""
