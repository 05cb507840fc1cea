"""Cross entropies in Helion."""
