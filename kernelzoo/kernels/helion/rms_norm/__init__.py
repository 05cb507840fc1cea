"""RMS norms in Helion."""
