"""Gradients of layer norms in Helion."""
