"""Cross entropies in torch."""
