"""Gradients of RMS norms in Helion."""
