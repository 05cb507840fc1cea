"""Quantised rows in CuTe."""
