"""Parts of row-wise kernels: tilings by lanes, loads and stores of a lane's elements, and compensated sums."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import EVERY_LANE, WARP, opaque
from kernelzoo.kernels.numba.dtypes import WIDE, constant, is_packed
from kernelzoo.kernels.numba.row import block_reduce, tile_functions
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.layout import cdiv, power_of_two

THREADS = 256
LEAST_ELEMENTS = 4
"""The minimum number of elements per lane of contiguous rows."""
ENOUGH_LANES = 2**17
"""The number of lanes that fill a large GPU."""


def lanes_tiling(v: View) -> Tiling:
    """Return a tiling of single elements: a block per row, part of a warp per short row, or a block of strided rows."""
    if v.across:
        rows = min(WARP, power_of_two(v.neighbours))
        return Tiling(min(THREADS // rows, max(WARP // rows, power_of_two(v.n))), rows, 1, 1, across=True)
    lanes = min(THREADS, power_of_two(cdiv(v.n, LEAST_ELEMENTS)))
    return Tiling(lanes, 1 if lanes > WARP else 4 * WARP // lanes, 1, 1)


def vector_tiling(v: View, lanes: int = THREADS, size: int = 32, tiles: int = 4) -> Tiling:
    """Return a tiling as ``lanes_tiling`` does, but with vectors if all rows are aligned. Short rows have fewer lanes.

    A lane loads up to ``tiles`` vectors and ``size`` elements at once, or ``2 * tiles`` single elements.
    """
    if v.across:
        tiling = lanes_tiling(v)
        return replace(tiling, tiles=min(size, 8, power_of_two(cdiv(v.n, tiling.lanes))))
    most = min(tiles, size // v.pack) if v.pack > 1 else min(2 * tiles, size)
    tiles = min(most, power_of_two(cdiv(v.n // v.pack, 8)))
    needed = power_of_two(cdiv(v.n, v.pack * tiles))
    if needed > WARP:
        return Tiling(lanes, 1, tiles, v.pack, flexible=True, unsigned=True)
    return Tiling(needed, 4 * WARP // needed, tiles, v.pack, unsigned=True)


def scan_tiling(v: View) -> Tiling:
    """Return a tiling whose lanes scan a vector at a time, then exchange sums. If rows are many, each has fewer lanes.

    An SM must fit 1536 threads or 12 blocks, so that some read and write while others exchange sums.
    """
    if v.across:
        return lanes_tiling(v)
    vectors = cdiv(v.n, v.pack)
    turns = max(1, min(16, vectors // WARP, v.planned * vectors // ENOUGH_LANES))
    lanes = min(THREADS, power_of_two(cdiv(vectors, turns)))
    threads = lanes if lanes > WARP else 4 * WARP
    return Tiling(lanes, threads // lanes, 1, v.pack, blocks=min(12, 1536 // threads), unsigned=True)


def register_tiling(v: View) -> Tiling:
    """Return a tiling that keeps contiguous rows of up to 16384 elements (8192 in float64) in registers. Longer rows
    are cut into tiles. A lane has 16 elements. It has 32 if rows exceed 8192 elements, or for packed halves 2048 and
    ``ENOUGH_LANES`` remain. An SM must fit two blocks of packed halves, so that one reads while the other writes."""
    many = is_packed(v.dtype, v.pack) and v.planned * v.n >= 32 * ENOUGH_LANES
    size = 32 if v.n > (2048 if many else 16 * 512) and v.itemsize < 8 else 16
    tiling = vector_tiling(v, 512, size, size)
    if tiling.lanes * tiling.size < v.n:
        return vector_tiling(v, size=16)
    return replace(tiling, held=True, blocks=2 if is_packed(v.dtype, tiling.vec) else 1)


@cache
def row_io(dtype: str, tiling: Tiling, *, shared: bool = False) -> tuple[Any, Any, Any]:
    """Return ``load``, ``value`` and ``store`` for a lane's elements of the row at the offset ``base``.

    ``load(pointer, base, step, lane, lanes, start, n, words)`` loads those of the tile at ``start``, as stored in
    memory, and zeros from n on. ``value(words, j)`` returns one as a number. ``store(pointer, base, step, lane, lanes,
    start, n, values)`` stores numbers. ``shared``: whether all rows load the same elements. L2 then keeps these longer.
    """
    _, load_tile, store_tile, _, _ = tile_functions(dtype, tiling, constant(dtype, 0), keep_in_l2=shared)
    WORD, WORDS, PACKED = tiling.word(dtype), tiling.words(dtype), is_packed(dtype, tiling.vec)
    low, high, pack, _, _ = machine.packed_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def load(pointer, base, step, lane, lanes, start, n, words):
        load_tile(pointer, base, step, lane, lanes, start, n, words, 0)

    @cuda.jit(device=True, inline="always")
    def value(words, j):
        if not PACKED:
            return words[j]
        word = opaque(words[j // 2])
        return low(word) if j % 2 == 0 else high(word)

    @cuda.jit(device=True, inline="always")
    def store(pointer, base, step, lane, lanes, start, n, values):
        words = cuda.local.array(WORDS, WORD)
        for j in range(WORDS):
            words[j] = pack(values[2 * j], values[2 * j + 1]) if PACKED else values[j]
        store_tile(pointer, base, step, lane, lanes, start, n, words, 0)

    return load, value, store


@cache
def tile_loop(tiling: Tiling) -> Any:
    """Return ``loop_over_tiles(length, lanes)``: where a row's tiles begin. A row kept in registers is one tile."""
    SIZE, HELD = tiling.size, tiling.held

    @cuda.jit(device=True, inline="always")
    def loop_over_tiles(length, lanes):
        return range(0, 1, 1) if HELD else range(0, length, lanes * SIZE)

    return loop_over_tiles


@cache
def row_indexer(tiling: Tiling) -> Any:
    """Return ``element_index(lane, lanes, start, j)``: the row's index of element j of a lane's tile at ``start``."""
    VEC = tiling.vec

    @cuda.jit(device=True, inline="always")
    def element_index(lane, lanes, start, j):
        return start + (j // VEC * lanes + lane) * VEC + j % VEC

    return element_index


@cache
def tree_sum(size: int) -> Any:
    """Return ``add_up(values, k)``, which sums ``values[k : k + size]``, a power of two, in a tree."""
    half: Any = tree_sum(size // 2) if size > 1 else None
    HALF = size // 2

    @cuda.jit(device=True, inline="always")
    def take_one(values, k):
        return values[k]

    @cuda.jit(device=True, inline="always")
    def add_halves(values, k):
        return half(values, k) + half(values, k + HALF)

    return add_halves if size > 1 else take_one


@cache
def round_function(dtype: str) -> Any:
    """Return ``round_off(v)``, which rounds a number to the dtype, and returns it in the accumulator type."""
    low, _, pack, _, _ = machine.packed_functions(dtype)
    HALF = is_packed(dtype, 2)

    @cuda.jit(device=True, inline="always")
    def round_off(v):
        return low(pack(v, v)) if HALF else v

    return round_off


@cuda.jit(device=True, inline="always")
def add_exactly(total, x):
    """Add x to the running sum (rounded, rounding errors), after Knuth (TAOCP 2, 4.2.2). Integers have no errors."""
    rounded, lost = total
    new = rounded + x
    back = new - rounded
    return new, lost + ((rounded - (new - back)) + (x - back))


@cuda.jit(device=True, inline="always")
def sum_with_errors(total):
    """Return a running sum plus its rounding errors, or only the sum if the errors are NaN, as for an infinite sum."""
    rounded, lost = total
    return rounded + lost if lost == lost else rounded


@cache
def lane_adder(dtype: str, tiling: Tiling) -> Any:
    """Return ``sum_over_lanes(total, scratch)``, which adds up the running sums of each row's lanes. Every lane gets
    the result. An earlier sum may have used the same ``scratch``, see ``block_reduce``."""
    _, _, block_sum = block_reduce(tiling, constant(dtype, 0))

    @cuda.jit(device=True, inline="always")
    def sum_over_lanes(total, scratch):
        cuda.syncthreads()
        return block_sum(sum_with_errors(total), scratch)

    return sum_over_lanes


@cache
def lane_means(dtype: str, tiling: Tiling, eps: float) -> tuple[Any, Any]:
    """Return ``mean`` and ``inverse_root``, which is 1 / sqrt(mean + eps). Their arguments are (total, n, scratch)."""
    kind, ONE, EPS, sum_over_lanes = WIDE[dtype], constant(dtype, 1), constant(dtype, eps), lane_adder(dtype, tiling)

    @cuda.jit(device=True, inline="always")
    def mean(total, n, scratch):
        return sum_over_lanes(total, scratch) / kind(n)

    @cuda.jit(device=True, inline="always")
    def inverse_root(total, n, scratch):
        return ONE / kind(math.sqrt(mean(total, n, scratch) + EPS))

    return mean, inverse_root


@cache
def tile_adders(dtype: str, tiling: Tiling, out_dtype: str) -> tuple[Any, Any]:
    """Return ``add_tile(total, words)`` and ``add_products(total, a, b)``. They add a lane's elements of a tile, or the
    products of its numbers, in a tree. Then they add this sum to the running sum ``total``."""
    kind, SIZE, add_up = WIDE[out_dtype], tiling.size, tree_sum(tiling.size)
    _, value, _ = row_io(dtype, tiling)

    @cuda.jit(device=True, inline="always")
    def add_tile(total, words):
        values = cuda.local.array(SIZE, kind)
        for j in range(SIZE):
            values[j] = value(words, j)
        return add_exactly(total, add_up(values, 0))

    @cuda.jit(device=True, inline="always")
    def add_products(total, a, b):
        products = cuda.local.array(SIZE, kind)
        for j in range(SIZE):
            products[j] = a[j] * b[j]
        return add_exactly(total, add_up(products, 0))

    return add_tile, add_products


@cache
def lane_scan_function(dtype: str, tiling: Tiling) -> Any:
    """Return ``scan(lane, r, own, sums, k)``: (sum of ``own`` over a row's earlier lanes, sum over all its lanes).
    Lanes of a warp use a butterfly, and warps are added in order. ``sums`` is shared memory. ``tiling.scratch``
    elements from k on are used, and may be overwritten after one more barrier."""
    ZERO, ROWS, APART = constant(dtype, 0), tiling.rows, tiling.rows if tiling.across else 1
    NEAR = min(tiling.lanes, WARP // APART)  # lanes of a row that share a warp
    LEVELS, WARPS = NEAR.bit_length() - 1, tiling.lanes // NEAR

    @cuda.jit(device=True, inline="always")
    def scan(lane, r, own, sums, k):
        before, total = ZERO, own
        for level in range(LEVELS):
            other = cuda.shfl_xor_sync(EVERY_LANE, total, APART << level)
            if lane & (1 << level):
                before = other + before
            total += other
        if WARPS > 1:
            at, own_warp, start = types.uint32(k + r % ROWS), types.uint32(lane) // NEAR, ZERO
            if lane % NEAR == 0:
                sums[at + own_warp * ROWS] = total
            cuda.syncthreads()
            total = ZERO
            for warp in range(WARPS):
                if warp == own_warp:
                    start = total
                total += sums[at + warp * ROWS]
            before += start
        return before, total

    return scan
