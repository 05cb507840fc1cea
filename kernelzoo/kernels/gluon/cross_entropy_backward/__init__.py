"""Gradients of cross entropies in Gluon."""
