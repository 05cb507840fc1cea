"""Places of minima in CUDA C."""
