"""Places of minima in cuTile."""
