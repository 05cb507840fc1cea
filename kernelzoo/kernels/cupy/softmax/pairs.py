"""Pairs of a row's maximum and sum: see pairs.cuh."""

from kernelzoo.layout import Layout


def pair_bytes(layout: Layout) -> int:
    return 16 if layout.dtype == "float64" else 8
