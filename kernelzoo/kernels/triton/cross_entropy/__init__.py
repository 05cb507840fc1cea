"""Cross entropies in Triton."""
