"""Sums in Helion."""
