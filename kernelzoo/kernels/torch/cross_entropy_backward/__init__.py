"""Gradients of cross entropies in torch."""
