"""Layer norms in Gluon."""
