"""A minimum's gradient by counts of minima that are known, on the host, in Numba."""
