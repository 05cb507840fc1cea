"""Gradients of layer norms in CuTe."""
