"""Dot products of rows, in Triton."""
