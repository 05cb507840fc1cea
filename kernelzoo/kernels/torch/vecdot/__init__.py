"""Dot products of rows, in torch."""
