"""Running sums in CUDA C."""
