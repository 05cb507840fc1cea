"""Layer norms in cuTile."""
