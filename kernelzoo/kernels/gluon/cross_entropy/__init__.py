"""Cross entropies in Gluon."""
