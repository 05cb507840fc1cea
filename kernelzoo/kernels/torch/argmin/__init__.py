"""Places of minima in torch."""
