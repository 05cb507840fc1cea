"""Rows quantised in Helion."""
