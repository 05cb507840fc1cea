"""Gradients of RMS norms in CuTe."""
