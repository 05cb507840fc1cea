"""Pairs of a softmax's rows, in Triton."""
