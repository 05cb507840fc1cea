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
from kernelzoo.kernels.numba.row import block_reduce, tile_accessors
from kernelzoo.kernels.numba.tiling import RowView, Tiling
from kernelzoo.layout import cdiv, next_power_of_two

THREADS = 256
LEAST_ELEMENTS = 4
"""The minimum number of elements per lane of contiguous rows."""
ENOUGH_LANES = 2**17
"""The number of lanes that fill a large GPU."""


def element_tiling(v: RowView) -> Tiling:
    """Return a tiling of single elements: a block per row, part of a warp per short row, or a block of strided rows."""
    if v.is_strided:
        rows = min(WARP, next_power_of_two(v.evenly_spaced_rows))
        return Tiling(min(THREADS // rows, max(WARP // rows, next_power_of_two(v.n))), rows, 1, 1, across=True)
    lanes = min(THREADS, next_power_of_two(cdiv(v.n, LEAST_ELEMENTS)))
    return Tiling(lanes, 1 if lanes > WARP else 4 * WARP // lanes, 1, 1)


def vector_tiling(v: RowView, lanes: int = THREADS, size: int = 32, tiles: int = 4) -> Tiling:
    """Return a tiling as ``element_tiling`` does, but of vectors if all rows are aligned. Short rows have fewer lanes.

    A lane loads up to ``tiles`` vectors and ``size`` elements at once, or ``2 * tiles`` single elements."""
    if v.is_strided:
        tiling = element_tiling(v)
        return replace(tiling, tiles=min(size, 8, next_power_of_two(cdiv(v.n, tiling.lanes))))
    most = min(tiles, size // v.pack) if v.pack > 1 else min(2 * tiles, size)
    tiles = min(most, next_power_of_two(cdiv(v.n // v.pack, 8)))
    needed = next_power_of_two(cdiv(v.n, v.pack * tiles))
    if needed > WARP:
        return Tiling(lanes, 1, tiles, v.pack, flexible=True, unsigned=True)
    return Tiling(needed, 4 * WARP // needed, tiles, v.pack, unsigned=True)


def scan_tiling(v: RowView) -> Tiling:
    """Return a tiling whose lanes scan a vector at a time, then exchange sums. If rows are many, each has fewer lanes.

    An SM must fit 1536 threads or 12 blocks, so that some read and write while others exchange sums."""
    if v.is_strided:
        return element_tiling(v)
    vectors = cdiv(v.n, v.pack)
    turns = max(1, min(16, vectors // WARP, v.planned * vectors // ENOUGH_LANES))
    lanes = min(THREADS, next_power_of_two(cdiv(vectors, turns)))
    threads = lanes if lanes > WARP else 4 * WARP
    return Tiling(lanes, threads // lanes, 1, v.pack, blocks=min(12, 1536 // threads), unsigned=True)


def register_tiling(v: RowView) -> Tiling:
    """Return a tiling that keeps contiguous rows of up to 16384 elements (8192 in float64) in registers. Longer rows
    are cut into tiles. A lane has 16 elements, or 32 of long rows. Rows are long above 8192 elements. Packed halves are
    long above 2048, if there are ``ENOUGH_LANES`` lanes. An SM fits two blocks of these: one reads, one writes."""
    many = is_packed(v.dtype, v.pack) and v.planned * v.n >= 32 * ENOUGH_LANES
    size = 32 if v.n > (2048 if many else 16 * 512) and v.itemsize < 8 else 16
    tiling = vector_tiling(v, 512, size, size)
    if tiling.lanes * tiling.read_size < v.n:
        return vector_tiling(v, size=16)
    return replace(tiling, held=True, blocks=2 if is_packed(v.dtype, tiling.vec) else 1)


@cache
def lane_access(dtype: str, tiling: Tiling, *, common: bool = False) -> tuple[Any, Any, Any]:
    """Return ``load``, ``value`` and ``store`` for a lane's elements of the row at the offset ``base``.

    ``load(pointer, base, step, lane, lanes, start, n, words)`` loads those of the tile at ``start``, as stored in
    memory, and zeros from n on. ``value(words, j)`` returns one as a number. ``store(pointer, base, step, lane, lanes,
    start, n, values)`` stores numbers. ``common``: whether all rows load the same elements. L2 then keeps these longer.
    """
    _, load_tile, store_tile, _, _ = tile_accessors(dtype, tiling, constant(dtype, 0), keep_in_l2=common)
    WORD, WORDS, PACKED = tiling.register_type(dtype), tiling.registers(dtype), is_packed(dtype, tiling.vec)
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
def tile_starts(tiling: Tiling) -> Any:
    """Return ``loop_over_tiles(length, lanes)``: where a row's tiles start. A row kept in registers is one tile."""
    SIZE, HELD = tiling.read_size, tiling.held

    @cuda.jit(device=True, inline="always")
    def loop_over_tiles(length, lanes):
        return range(0, 1, 1) if HELD else range(0, length, lanes * SIZE)

    return loop_over_tiles


@cache
def element_indexer(tiling: Tiling) -> Any:
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
def add_rounding_errors(total):
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
        return block_sum(add_rounding_errors(total), scratch)

    return sum_over_lanes


@cache
def mean_functions(dtype: str, tiling: Tiling, eps: float) -> tuple[Any, Any]:
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
def tile_sum_adders(dtype: str, tiling: Tiling, out_dtype: str) -> tuple[Any, Any]:
    """Return ``add_tile(total, words)`` and ``add_products(total, a, b)``. Both add up numbers of a lane's tile in a
    tree: its elements, or the products of the arrays a and b. They add this sum to the running sum ``total``."""
    kind, SIZE, add_up = WIDE[out_dtype], tiling.read_size, tree_sum(tiling.read_size)
    _, value, _ = lane_access(dtype, tiling)

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
    """Return ``scan(lane, r, own, sums, k)`` for row r: (sum of ``own`` over earlier lanes, sum over all of its lanes).
    Lanes of a warp use a butterfly, and warps are added in order. Shared memory from ``sums[k]`` on, ``tiling.scratch``
    elements, is used. Other data may be written there after the block's next barrier."""
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
