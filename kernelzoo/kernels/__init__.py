"""The kernels: a folder per language, in it one per operation, in that a file per form. Nothing heavy is imported until
asked for."""
