"""The kernels: one folder per language, one module per operation. Nothing heavy is imported until asked for."""
