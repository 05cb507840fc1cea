"""How blocks cover the rows of two inputs at once: half as much of each as a form that has one."""

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.launch import View
from kernelzoo.kernels.numba.row import Tiling
from kernelzoo.kernels.numba.softmax.tiling import column_tiling
from kernelzoo.layout import VECTOR_BYTES, cdiv, power_of_two

BLOCK_LIMIT = 512
"""Threads in a block: each has 128 registers."""
WARP_VECTORS = 4 * WARP
"""Of the longest row that a warp takes."""
DEEP = 8
"""Vectors of 16 bytes that a thread has of each input at most: 64 registers in all."""


def deep_of(v: View) -> int:
    """Vectors that a thread may have of each input: as many bytes as of whole ones, but of elements one by one, which
    need an address each, half of that."""
    if v.whole:
        return DEEP
    return max(1, (16 if v.vec == 1 else 32) // v.vec // (2 if v.itemsize == 8 else 1))


def whole_row(v: View) -> Tiling | None:
    """A block to a row, which its registers hold; None for a longer one. Four vectors of each input to a thread, eight
    of a row that would have more than 256 threads: of 256 an SM runs two blocks or more, so that one reads while
    another writes."""
    if v.across:
        return column_tiling(v, 8 * 4 // max(v.itemsize, 4))
    vectors, deep = max(1, v.n // v.vec), deep_of(v)
    for lanes, tiles in ((64, 1), (64, 2), (256, max(1, deep // 2)), (BLOCK_LIMIT, deep)):
        if vectors <= lanes * tiles:
            return Tiling(lanes, 1, tiles, v.vec, v.edges, flexible=True)
    return None


def short_rows(v: View) -> Tiling | None:
    """Blocks of 128 threads; a warp to a row of over 64 vectors, half a warp to a shorter one; two vectors of each
    input in flight, over a thread's rows together, up to eight where a warp's row needs them."""
    size = 8 * 4 // max(v.itemsize, 4)
    if v.across:
        if v.n > size:
            return None
        return Tiling(1, 256, v.n, 1, across=True, stack=max(1, size // 2 // power_of_two(v.n)))
    vec = v.vec
    if v.edges and v.n < 4 * vec:  # too short for aligned vectors: lane by lane
        vec = 1
    vectors = max(1, v.n // vec)
    lanes = min(power_of_two(vectors), 16 if vectors <= 64 and vec > 1 else WARP)
    if v.edges and vec > 1:
        lanes = max(lanes, min(2 * vec, WARP))  # an edge element each
    tiles = power_of_two(cdiv(vectors, lanes))
    deep = 2 if vec * v.itemsize == VECTOR_BYTES else max(1, size // vec)
    if tiles > (4 if v.itemsize == 8 else 8) * deep // 2:
        return None
    return Tiling(lanes, 128 // lanes, tiles, vec, v.edges and vec > 1, stack=max(1, deep // tiles))


def fused_tiling(v: View) -> Tiling | None:
    """A warp or a part of one to a short row, a block to a longer one."""
    short = short_rows(v) if v.across or v.n // v.vec <= WARP_VECTORS else None
    return short or whole_row(v)


def streaming(v: View) -> Tiling:
    """A block that goes along a row of any length, up to 512 threads with two vectors of each input in flight, of which
    an SM runs three or more."""
    size = 8 if v.itemsize <= 4 else 4
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(512 // rows, rows, min(size // 2, power_of_two(cdiv(v.n * rows, 512))), 1, across=True)
    return Tiling(512, 1, 2 if v.whole else max(1, size // v.vec), v.vec, v.edges, flexible=True)
