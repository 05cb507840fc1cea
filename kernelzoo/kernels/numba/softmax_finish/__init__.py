"""A softmax's rows by pairs that are known, in Numba."""
