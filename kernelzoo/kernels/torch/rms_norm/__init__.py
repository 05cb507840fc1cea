"""RMS norms in torch: eager and compiled."""
