"""Pairs of a softmax's rows, in CUDA C."""
