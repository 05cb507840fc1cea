"""Gradients of layer norms in CUDA C."""
