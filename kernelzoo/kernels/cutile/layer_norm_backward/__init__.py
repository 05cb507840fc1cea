"""Gradients of layer norms in cuTile."""
