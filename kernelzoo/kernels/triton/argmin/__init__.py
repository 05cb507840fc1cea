"""Places of minima in Triton."""
