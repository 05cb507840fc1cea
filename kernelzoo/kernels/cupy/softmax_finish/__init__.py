"""A softmax's rows by pairs that are known, in CUDA C."""
