"""Gradients of layer norms in torch."""
