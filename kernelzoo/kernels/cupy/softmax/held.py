"""Rows that threads hold in registers: see held.cuh."""

from kernelzoo.kernels.cupy.rows import WARP
from kernelzoo.layout import cdiv

PACKS_HELD = 8
"""Packs of a thread at most: 32 registers of elements and as many for the rest, which 1024 threads an SM can have."""


def threads(packs: int, items: int) -> int:
    """Threads, in whole warps, that take ``items`` packs each."""
    return cdiv(packs, items * WARP) * WARP
