"""Running sums in torch."""
