"""Sums in cuTile."""
