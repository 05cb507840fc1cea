"""Layer norms in Helion."""
