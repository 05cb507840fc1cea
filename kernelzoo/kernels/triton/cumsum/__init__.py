"""Running sums in Triton."""
