"""Loads and stores of a thread's elements of rows, in registers, and reductions over threads.

A row that begins or ends off a 16-byte boundary is still read in aligned vectors. Its *edges* are the few elements
before the first vector and after the last. Each of the first ``2 * vec`` lanes reads at most one edge element.

Loops are unrolled at compile time: all indices of local arrays are then constants, and the arrays live in registers.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import EVERY_LANE, WARP, add, maximum, minimum
from kernelzoo.kernels.numba.dtypes import identity_word
from kernelzoo.kernels.numba.tiling import Tiling

FAR = 2**30  # elements: more than any block reads at once


@cache
def thread_mapping(tiling: Tiling) -> Any:
    """Return ``mapping()``: (this thread's lane, lanes per row, index of its row within the block)."""
    ROWS, LANES = tiling.rows, tiling.lanes
    LANE_STEP, GROUP_STEP = (tiling.rows, 1) if tiling.across else (1, tiling.lanes)

    FLEXIBLE, UNSIGNED = tiling.flexible, tiling.unsigned

    @cuda.jit(device=True, inline="always")
    def mapping():
        t = types.uint32(cuda.threadIdx.x) if UNSIGNED else cuda.threadIdx.x
        if FLEXIBLE:
            return types.int64(t), types.int64(cuda.blockDim.x), types.int64(0)
        return types.int64(t // LANE_STEP % LANES), types.int64(LANES), types.int64(t // GROUP_STEP % ROWS)

    return mapping


@cache
def row_finder(tiling: Tiling) -> Any:
    """Return ``find_row(rows, n)``: this thread's (lane, lanes per row, row, row length). The length is 0 if the row
    doesn't exist. Its threads still take part in reductions, because these need complete warps."""
    mapping, ROWS = thread_mapping(tiling), tiling.rows

    @cuda.jit(device=True, inline="always")
    def find_row(rows, n):
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        return lane, lanes, r, n if r < rows else types.int64(0)

    return find_row


@cache
def tile_accessors(
    dtype: str, tiling: Tiling, identity: Any, *, branchless_edges: bool = False, keep_in_l2: bool = False
) -> tuple[Any, Any, Any, Any, Any]:
    """Return ``bounds``, ``load_tile``, ``store_tile``, ``load_edge`` and ``store_edge`` for a thread's part of a row.

    ``bounds(phase, n)`` returns the range [head, end) that aligned vectors cover, if the row begins ``phase`` elements
    past a 16-byte boundary. ``load_tile(pointer, base, stride, lane, lanes, head, end, row, k)`` loads the thread's
    part of the tile at ``head`` to ``row[k]`` on. Past ``end`` it sets the identity. ``store_tile`` is its inverse.
    ``load_edge(pointer, base, lane, head, end, n)`` returns this lane's element outside [head, end), or the
    identity. ``branchless_edges``: load it without a branch. ``keep_in_l2``: see ``vector_functions``."""
    load, store = machine.element_accessors(dtype)
    load_if = machine.guarded_load_function(dtype)
    load_vector, store_vector = machine.vector_functions(dtype, tiling.vec, keep_in_l2=keep_in_l2)
    TILES, VEC, WORDS = tiling.tiles, tiling.vec, tiling.registers(dtype) // tiling.tiles
    IDENTITY = identity_word(dtype, tiling.vec, identity)
    LOW_BITS = VEC - 1
    WHOLE, ACROSS, EARLY = not tiling.edges, tiling.across, branchless_edges

    @cuda.jit(device=True, inline="always")
    def bounds(phase, n):
        head = types.int64(0)
        if not WHOLE:
            head = min((-phase) & LOW_BITS, n)
        return head, n - ((n - head) & LOW_BITS)

    @cuda.jit(device=True, inline="always")
    def thread_share(lane, lanes, head, end):
        # (this thread's first element, elements from it to the end, step to its next vector); 32 bits save registers.
        first = head + lane * VEC
        left = min(end - first, FAR)
        if ACROSS:  # a row that doesn't exist ends at 0, which may be 2^31 elements back
            left = max(left, -FAR)
        return first, types.int32(left), types.int32(lanes * VEC)

    @cuda.jit(device=True, inline="always")
    def load_tile(pointer, base, stride, lane, lanes, head, end, row, k):
        first, left, step = thread_share(lane, lanes, head, end)
        for tile in range(TILES):
            for j in range(WORDS):
                row[k + tile * WORDS + j] = IDENTITY
            offset = types.int32(tile * step)
            i = base + (first + offset) * stride if VEC == 1 else base + first + offset
            load_vector(pointer, i, row, k + tile * WORDS, offset < left)

    @cuda.jit(device=True, inline="always")
    def store_tile(pointer, base, stride, lane, lanes, head, end, row, k):
        first, left, step = thread_share(lane, lanes, head, end)
        for tile in range(TILES):
            offset = types.int32(tile * step)
            i = base + (first + offset) * stride if VEC == 1 else base + first + offset
            store_vector(pointer, i, row, k + tile * WORDS, offset < left)

    @cuda.jit(device=True, inline="always")
    def load_edge(pointer, base, lane, head, end, n):
        value = identity
        if not WHOLE:
            i = lane if lane < VEC else end + lane - VEC
            if EARLY:
                value = load_if(pointer, base + i, i < head if lane < VEC else i < n, identity)
            elif (lane < VEC and i < head) or (lane >= VEC and i < n):
                value = load(pointer, base + i)
        return value

    @cuda.jit(device=True, inline="always")
    def store_edge(pointer, base, lane, head, end, n, value):
        if not WHOLE:
            i = lane if lane < VEC else end + lane - VEC
            if (lane < VEC and i < head) or (lane >= VEC and i < n):
                store(pointer, base + i, value)

    return bounds, load_tile, store_tile, load_edge, store_edge


@cache
def row_accessors(dtype: str, tiling: Tiling, identity: Any) -> tuple[Any, Any]:
    """Return ``load_row`` and ``store_row`` for a row that its lanes keep in registers, edges included.

    ``edge = load_row(pointer, base, stride, phase, lane, lanes, n, row, k)`` loads into registers from ``row[k]`` on,
    and returns this lane's edge element. ``phase``: see ``tile_accessors``. ``store_row(pointer, base, stride, phase,
    lane, lanes, n, row, k, edge)`` is the inverse. The L2 cache keeps loaded data longer than stored data."""
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, identity, keep_in_l2=True)

    @cuda.jit(device=True, inline="always")
    def load_row(pointer, base, stride, phase, lane, lanes, n, row, k):
        head, end = bounds(phase, n)
        load_tile(pointer, base, stride, lane, lanes, head, end, row, k)
        return load_edge(pointer, base, lane, head, end, n)

    @cuda.jit(device=True, inline="always")
    def store_row(pointer, base, stride, phase, lane, lanes, n, row, k, edge):
        head, end = bounds(phase, n)
        store_tile(pointer, base, stride, lane, lanes, head, end, row, k)
        store_edge(pointer, base, lane, head, end, n, edge)

    return load_row, store_row


@cuda.jit(device=True, inline="always")
def row_offsets(r, inner, x_at, out_at):
    """Return row r's offsets in x and out. Unless ``inner`` is 1, it divides in 64 bits: as slow as a short row."""
    source = r * x_at.outer
    target = r * out_at.outer
    if inner > 1:
        quotient = r // inner
        remainder = r - quotient * inner
        source = quotient * x_at.outer + remainder * x_at.inner
        target = quotient * out_at.outer + remainder * out_at.inner
    return source, target


@cuda.jit(device=True, inline="always")
def row_coords(r, inner):
    """Return the indices of row r along the outer and the inner axis, for tensors of any strides."""
    outer, index = r, types.int64(0)
    if inner > 1:
        outer = r // inner
        index = r - outer * inner
    return outer, index


@cuda.jit(device=True, inline="always")
def row_start(strides, indices):
    """Return the offset of a row in a tensor. indices: the row's indices along the outer and the inner axis."""
    outer, index = indices
    return outer * strides.outer + index * strides.inner


@lru_cache(maxsize=None, typed=True)
def warp_reduce_function(combine: Any, group_lanes: int = WARP, lane_step: int = 1) -> Any:
    """Return ``reduce(value)``, which combines lanes ``lane_step`` apart, in groups of ``group_lanes`` lanes.

    Each lane gets the result. A butterfly combines the same two numbers in both lanes, so that all get the same bits.
    """
    STEPS, FIRST = (group_lanes // lane_step).bit_length() - 1, group_lanes // 2

    @cuda.jit(device=True, inline="always")
    def reduce(value):
        for step in range(STEPS):
            value = combine(value, cuda.shfl_xor_sync(EVERY_LANE, value, FIRST >> step))
        return value

    return reduce


warp_sum, warp_max = warp_reduce_function(add), warp_reduce_function(maximum)


@lru_cache(maxsize=None, typed=True)
def block_reduce(tiling: Tiling, identity: Any) -> tuple[Any, Any, Any]:
    """Return ``block_max``, ``block_min`` and ``block_sum``, which reduce one value per thread over each row's lanes.

    ``reduce(value, scratch)`` returns the same bits to every lane, because warps are merged in a fixed order.
    ``scratch`` is shared memory of ``tiling.scratch`` elements. A barrier must precede its next use. ``identity``: that
    of the maximum or the minimum. If ``tiling.exact``, the maximum keeps a NaN, and sums are 64-bit integers."""
    zero = np.int64(0) if tiling.exact else type(identity)(0)
    pairs = ((machine.nan_maximum if tiling.exact else maximum, identity), (minimum, identity), (add, zero))
    maxima, minima, sums = (_block_reduce(combine, tiling, start) for combine, start in pairs)
    return maxima, minima, sums


def _block_reduce(combine: Any, tiling: Tiling, identity: Any) -> Any:
    ROWS, WARPS, UNSIGNED = tiling.rows, tiling.threads // WARP, tiling.unsigned
    if tiling.across:  # the lanes of a row that share a warp are ``rows`` apart
        warp = warp_reduce_function(combine, WARP, ROWS) if tiling.lanes > 1 else warp_reduce_function(combine, 1, 1)
    else:
        warp = warp_reduce_function(combine, min(tiling.lanes, WARP))

    @cuda.jit(device=True, inline="always")
    def reduce_warp(value, scratch):
        return warp(value)

    @cuda.jit(device=True, inline="always")
    def reduce_block(value, scratch):
        value = warp(value)
        t = types.uint32(cuda.threadIdx.x) if UNSIGNED else cuda.threadIdx.x
        if t % WARP == 0:
            scratch[t // WARP] = value
        cuda.syncthreads()
        value = identity
        if t % WARP < (types.uint32(cuda.blockDim.x) if UNSIGNED else cuda.blockDim.x) // WARP:
            value = scratch[t % WARP]
        return warp(value)

    @cuda.jit(device=True, inline="always")
    def reduce_columns(value, scratch):
        value = warp(value)
        t = cuda.threadIdx.x
        row = t % ROWS
        if t % WARP < ROWS:
            scratch[t // WARP * ROWS + row] = value
        cuda.syncthreads()
        value = scratch[row]
        for other in range(1, WARPS):
            value = combine(value, scratch[other * ROWS + row])
        cuda.syncthreads()
        return value

    if tiling.across and tiling.lanes > 1 and tiling.threads > WARP:
        return reduce_columns
    return reduce_block if not tiling.across and tiling.lanes > WARP else reduce_warp


@cuda.jit(device=True, inline="always")
def wait_for_blocks(counters, r, blocks):
    """Increment ``counters[r]``, and wait until ``blocks`` blocks have done so. One thread of each block calls it."""
    complete = (machine.count_up(counters, r) // blocks + 1) * blocks
    while machine.load_counter(counters, r) < complete:
        pass
