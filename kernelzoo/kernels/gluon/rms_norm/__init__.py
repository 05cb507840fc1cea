"""RMS norms in Gluon."""
