"""Gradients of RMS norms in CUDA C."""
