"""Gradients of RMS norms in cuTile."""
