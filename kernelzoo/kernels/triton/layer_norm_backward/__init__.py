"""Gradients of layer norms in Triton."""
