"""Sums in CuTe."""
