"""Places of minima in Gluon."""
