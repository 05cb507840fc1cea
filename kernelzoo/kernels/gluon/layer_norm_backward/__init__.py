"""Gradients of layer norms in Gluon."""
