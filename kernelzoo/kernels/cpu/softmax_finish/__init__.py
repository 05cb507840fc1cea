"""A softmax's rows by pairs that are known, on the host, in Numba."""
