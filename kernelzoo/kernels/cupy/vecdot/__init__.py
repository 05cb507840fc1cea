"""Dot products of rows, in CUDA C."""
