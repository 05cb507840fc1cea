"""The minimum along an axis in Triton: by rows, by atomics, by parts of a row, by columns. See ``choose.py``."""
