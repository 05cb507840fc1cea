"""Softmax in torch: what a user would pick without this package, and the unfused form that shows why kernels fuse."""
