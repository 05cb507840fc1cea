"""Layer norms in CUDA C."""
