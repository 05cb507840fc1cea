"""Places of minima in CuTe."""
