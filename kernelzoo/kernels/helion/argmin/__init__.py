"""Places of minima in Helion."""
