"""Gradients of cross entropies in Triton."""
