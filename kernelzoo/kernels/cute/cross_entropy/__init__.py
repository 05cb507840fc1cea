"""Cross entropies in CuTe."""
