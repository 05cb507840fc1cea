"""Running sums in Helion."""
