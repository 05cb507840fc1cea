"""Gradients of RMS norms in Triton."""
