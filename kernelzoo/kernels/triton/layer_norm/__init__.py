"""Layer norms in Triton."""
