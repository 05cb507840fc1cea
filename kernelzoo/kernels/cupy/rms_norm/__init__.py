"""RMS norms in CUDA C."""
