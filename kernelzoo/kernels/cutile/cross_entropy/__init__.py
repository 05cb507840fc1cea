"""Cross entropies in cuTile."""
