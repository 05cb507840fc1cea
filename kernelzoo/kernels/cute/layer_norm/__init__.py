"""Layer norms in CuTe."""
