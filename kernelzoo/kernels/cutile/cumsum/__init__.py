"""Running sums in cuTile."""
