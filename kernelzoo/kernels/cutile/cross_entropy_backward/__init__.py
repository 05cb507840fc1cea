"""Gradients of cross entropies in cuTile."""
