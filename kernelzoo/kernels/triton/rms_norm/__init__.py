"""RMS norms in Triton."""
