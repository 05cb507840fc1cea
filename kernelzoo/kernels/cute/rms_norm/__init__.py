"""RMS norms in CuTe."""
