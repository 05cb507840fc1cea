"""A minimum's gradient by counts of minima that are known, in Numba."""
