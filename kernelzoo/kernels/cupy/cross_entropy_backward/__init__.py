"""Gradients of cross entropies in CUDA C."""
