"""Gradients of RMS norms in Gluon."""
