"""Gradients of cross entropies in Helion."""
