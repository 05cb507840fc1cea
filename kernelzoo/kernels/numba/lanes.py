"""Plain kernels: how many lanes go along a row, how they read and write it, and how they keep a long sum exact."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import EVERY_LANE, WARP, opaque
from kernelzoo.kernels.numba.dtypes import WIDE, is_packed, number
from kernelzoo.kernels.numba.row import access, block_reduce
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.layout import cdiv, power_of_two

THREADS = 256
FEW = 4
"""Elements that a lane has at the least, where rows lie along memory."""
MANY = 2**17
"""Lanes: enough for a large chip."""


def lanes_tiling(v: View) -> Tiling:
    """A block to a row, a part of a warp to a short one, or rows side by side where these are nearer in memory."""
    if v.across:
        rows = min(WARP, power_of_two(v.neighbours))
        return Tiling(min(THREADS // rows, max(WARP // rows, power_of_two(v.n))), rows, 1, 1, across=True)
    lanes = min(THREADS, power_of_two(cdiv(v.n, FEW)))
    return Tiling(lanes, 1 if lanes > WARP else 4 * WARP // lanes, 1, 1)


def packs_tiling(v: View, lanes: int = THREADS, size: int = 32, tiles: int = 4) -> Tiling:
    """As ``lanes_tiling``, of lanes that read whole vectors where all rows have such; fewer for rows that are short.

    Each has up to ``tiles`` vectors and ``size`` elements at a time; of elements one by one, twice as many.
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
    """Lanes take a vector at a time, and meet after each. A row has as few as leave ``MANY`` in all, or a warp.

    An SM runs up to 1536 threads at least: while some meet, others read and write.
    """
    if v.across:
        return lanes_tiling(v)
    vectors = cdiv(v.n, v.pack)
    turns = max(1, min(16, vectors // WARP, v.planned * vectors // MANY))
    lanes = min(THREADS, power_of_two(cdiv(vectors, turns)))
    threads = lanes if lanes > WARP else 4 * WARP
    return Tiling(lanes, threads // lanes, 1, v.pack, blocks=min(12, 1536 // threads), unsigned=True)


def held_tiling(v: View) -> Tiling:
    """Registers hold a row of up to 16384 elements along memory, 8192 of float64; longer ones are read by the tile.

    A lane has 32 elements of long rows, and of packed halves where ``MANY`` lanes are left, else 16. An SM runs two
    blocks that hold packed halves at least, so that one reads while another writes.
    """
    many = is_packed(v.dtype, v.pack) and v.planned * v.n >= 32 * MANY
    size = 32 if v.n > (2048 if many else 16 * 512) and v.itemsize < 8 else 16
    tiling = packs_tiling(v, 512, size, size)
    if tiling.lanes * tiling.size < v.n:
        return packs_tiling(v, size=16)
    return replace(tiling, held=True, blocks=2 if is_packed(v.dtype, tiling.vec) else 1)


@cache
def row_values(dtype: str, tiling: Tiling, *, shared: bool = False) -> tuple[Any, Any, Any]:
    """``load``, ``value``, ``store``, of a lane's elements of a row.

    ``load(pointer, base, step, lane, lanes, start, n, words)`` reads those of the tile that begins at ``start``, as
    they lie in memory, and zeros from n on. ``value(words, j)`` is one as a number. ``store(pointer, base, step, lane,
    lanes, start, n, values)`` writes numbers. ``shared``: what is read is all rows', and stays in caches.
    """
    _, load_tile, store_tile, _, _ = access(dtype, tiling, number(dtype, 0), keep_in_l2=shared)
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
def tiles_of(tiling: Tiling) -> Any:
    """``tiles(length, lanes)``: where the tiles of a row begin; a row that the tiling holds is one tile."""
    SIZE, HELD = tiling.size, tiling.held

    @cuda.jit(device=True, inline="always")
    def tiles(length, lanes):
        return range(0, 1, 1) if HELD else range(0, length, lanes * SIZE)

    return tiles


@cache
def place_of(tiling: Tiling) -> Any:
    """``place(lane, lanes, start, j)``: where in its row a lane's j-th element of the tile from ``start`` on is."""
    VEC = tiling.vec

    @cuda.jit(device=True, inline="always")
    def place(lane, lanes, start, j):
        return start + (j // VEC * lanes + lane) * VEC + j % VEC

    return place


@cache
def tree_sum(size: int) -> Any:
    """``add_up(values, k)``: the sum of ``values[k : k + size]``, a power of two, in a tree."""
    half: Any = tree_sum(size // 2) if size > 1 else None
    HALF = size // 2

    @cuda.jit(device=True, inline="always")
    def one(values, k):
        return values[k]

    @cuda.jit(device=True, inline="always")
    def two(values, k):
        return half(values, k) + half(values, k + HALF)

    return two if size > 1 else one


@cache
def rounding(dtype: str) -> Any:
    """``round_off(v)``: a number as the dtype stores it, in the type that it is computed in."""
    low, _, pack, _, _ = machine.packed_functions(dtype)
    HALF = is_packed(dtype, 2)

    @cuda.jit(device=True, inline="always")
    def round_off(v):
        return low(pack(v, v)) if HALF else v

    return round_off


@cuda.jit(device=True, inline="always")
def add_exactly(total, x):
    """A running sum and x. It is (what it is, what that rounded off), after Knuth (TAOCP 2, 4.2.2); of integers, 0."""
    rounded, lost = total
    new = rounded + x
    back = new - rounded
    return new, lost + ((rounded - (new - back)) + (x - back))


@cuda.jit(device=True, inline="always")
def whole(total):
    """A running sum with what it rounded off, which is NaN where the sum is infinite."""
    rounded, lost = total
    return rounded + lost if lost == lost else rounded


@cache
def lane_sum(dtype: str, tiling: Tiling) -> Any:
    """``sum_over_lanes(total, scratch)``: of a running sum in each lane, over the lanes of each row; every lane gets
    it. ``scratch`` may be that of an earlier sum."""
    _, _, block_sum = block_reduce(tiling, number(dtype, 0))

    @cuda.jit(device=True, inline="always")
    def sum_over_lanes(total, scratch):
        cuda.syncthreads()
        return block_sum(whole(total), scratch)

    return sum_over_lanes


@cache
def lane_means(dtype: str, tiling: Tiling, eps: float) -> tuple[Any, Any]:
    """``mean(total, n, scratch)``: as ``lane_sum``, over n elements; ``inverse_root(...)``: 1 over the root of that and
    eps."""
    kind, ONE, EPS, sum_over_lanes = WIDE[dtype], number(dtype, 1), number(dtype, eps), lane_sum(dtype, tiling)

    @cuda.jit(device=True, inline="always")
    def mean(total, n, scratch):
        return sum_over_lanes(total, scratch) / kind(n)

    @cuda.jit(device=True, inline="always")
    def inverse_root(total, n, scratch):
        return ONE / kind(math.sqrt(mean(total, n, scratch) + EPS))

    return mean, inverse_root


@cache
def tile_sums(dtype: str, tiling: Tiling, out_dtype: str) -> tuple[Any, Any]:
    """``add_tile(total, words)``: a running sum and a tree of what a lane has read at once.
    ``add_products(total, a, b)``: the same of products of a lane's numbers."""
    kind, SIZE, add_up = WIDE[out_dtype], tiling.size, tree_sum(tiling.size)
    _, value, _ = row_values(dtype, tiling)

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
def lane_scan(dtype: str, tiling: Tiling) -> Any:
    """``scan(lane, r, own, sums, k)``: of a number in each lane, the sum over a row's lanes before, and over all.

    A butterfly within a warp, and warps in order. ``sums`` is shared memory, of which ``tiling.scratch`` elements are
    used, from k on. Those may be written again once threads have met another time.
    """
    ZERO, ROWS, APART = number(dtype, 0), tiling.rows, tiling.rows if tiling.across else 1
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
