"""Layer norms in torch: eager and compiled."""
