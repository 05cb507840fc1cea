"""How blocks cover the rows of one input, which they read and write."""

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.launch import View
from kernelzoo.kernels.numba.row import Tiling
from kernelzoo.kernels.numba.softmax.multi_row_tile import multi_row_tiling
from kernelzoo.kernels.numba.softmax.tiling import column_tiling
from kernelzoo.layout import cdiv, power_of_two

BLOCK_LIMIT = 1024
"""Threads in a block."""
WARP_VECTORS = 6 * WARP
"""Of the longest row that a warp takes."""


def deep_of(v: View) -> int:
    """Vectors that a thread may have: as many bytes as of eight whole ones, half of that in elements one by one."""
    return 8 if v.whole else max(1, (16 if v.vec == 1 else 32) // v.vec // (2 if v.itemsize == 8 else 1))


def whole_row(v: View) -> Tiling | None:
    """A block to a row, which its registers hold; None for a longer one. Four vectors to a thread, eight of a row that
    would have more than 512 threads, so that an SM runs two blocks."""
    if v.across:
        return column_tiling(v, 8 * 4 // max(v.itemsize, 4))
    vectors, deep = max(1, v.n // v.vec), deep_of(v)
    for lanes, tiles in ((64, 1), (64, 2), (512, max(1, deep // 2)), (512, deep), (BLOCK_LIMIT, max(1, deep // 2))):
        if vectors <= lanes * tiles:
            return Tiling(lanes, 1, tiles, v.vec, v.edges, flexible=True)
    return None


def fused_tiling(v: View) -> Tiling | None:
    """A warp or a part of one to a short row, as of a softmax; a block to a longer one."""
    short = multi_row_tiling(v) if v.across or v.n // v.vec <= WARP_VECTORS else None
    return short or whole_row(v)


def streaming(v: View) -> Tiling:
    """A block that goes along a row of any length, up to 512 threads with four vectors each in flight, of which an SM
    runs two or more."""
    size = 16 if v.itemsize <= 4 else 8
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(512 // rows, rows, min(size // 2, power_of_two(cdiv(v.n * rows, 512))), 1, across=True)
    return Tiling(512, 1, 4 if v.whole else max(1, size // v.vec), v.vec, v.edges, flexible=True)
