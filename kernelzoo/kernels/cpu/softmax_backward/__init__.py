"""The gradient of a softmax on the host, in Numba."""
