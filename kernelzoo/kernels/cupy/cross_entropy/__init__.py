"""Cross entropies in CUDA C."""
