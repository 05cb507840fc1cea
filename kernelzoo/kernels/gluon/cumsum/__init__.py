"""Running sums in Gluon."""
