"""Gradients of cross entropies in CuTe."""
