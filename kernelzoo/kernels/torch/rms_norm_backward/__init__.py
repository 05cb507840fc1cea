"""Gradients of RMS norms in torch."""
