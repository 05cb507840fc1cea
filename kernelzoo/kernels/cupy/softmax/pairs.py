"""Pairs of a row's maximum and sum: see pairs.cuh."""

from __future__ import annotations

from kernelzoo.kernels.cupy.rows import Layout


def pair_bytes(layout: Layout) -> int:
    return 16 if layout.dtype == "float64" else 8
