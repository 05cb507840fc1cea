"""How a block of threads holds rows: who reads what, in vectors of 16 bytes, and how threads agree on one value.

A *row* is the n elements to be reduced. ``Tiling`` cuts a block into ``rows`` groups of ``lanes`` threads, one group to
a row, and gives each thread ``tiles`` vectors of ``vec`` elements at a time. Neighbouring threads take neighbouring
elements of one row, or, with ``across``, the same element of neighbouring rows, which is what memory wants when the
reduced axis is not the innermost one.

A row that begins or ends off a 16-byte boundary is read in whole aligned vectors all the same; the few elements before
the first and after the last, its *edges*, are one more scalar of the first ``2 * vec`` lanes.

Everything is unrolled at compile time: a local array whose every index is then a constant lives in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import EVERY_LANE, WARP, machine, maximum, minimum
from kernelzoo.kernels.numba.dtypes import WIDE

FAR = 2**30  # elements: more than any block reads at once


@dataclass(frozen=True)
class Tiling:
    """How one block covers rows. ``lanes``, ``rows`` and ``vec`` are powers of two."""

    lanes: int
    """Threads to a row."""
    rows: int
    """Rows that a block holds side by side; with lanes over a warp, 1, and across, a warp at most."""
    tiles: int
    """Vectors that a thread reads of a row at once: this many loads are in flight."""
    vec: int
    """Elements in a vector."""
    edges: bool = False
    """Whether rows may begin or end off a vector's boundary."""
    across: bool = False
    """Whether neighbouring threads belong to neighbouring rows."""
    stack: int = 1
    """Rows that a thread takes one above the other, their loads all in flight at once."""
    flexible: bool = False
    """Whether each launch says how many threads take the row, ``lanes`` being the most: one kernel for many lengths."""

    @property
    def threads(self) -> int:
        return self.lanes * self.rows

    @property
    def size(self) -> int:
        """Elements of a row that a thread reads at once."""
        return self.tiles * self.vec

    def words(self, dtype: str) -> int:
        """Registers that those elements take; two packed halves share one."""
        return self.size // 2 if machine.is_packed(dtype, self.vec) else self.size

    @property
    def lane_step(self) -> int:
        """The lane of thread t is t // lane_step % lanes."""
        return self.rows if self.across else 1

    @property
    def group_step(self) -> int:
        """The group of thread t is t // group_step % rows."""
        return 1 if self.across else self.lanes

    @property
    def scratch(self) -> int:
        """Elements of shared memory that a reduction needs."""
        return max(self.threads // WARP, 1) * (self.rows if self.across else 1)

    def spread_over(self, rows: int, blocks: int) -> Tiling:
        """With fewer rows one above the other, where so many would not make that many blocks."""
        stack = self.stack
        while stack > 1 and rows < self.rows * stack * blocks:
            stack //= 2
        return replace(self, stack=stack)

    def lanes_for(self, n: int) -> int:
        """Threads for a row of n elements, in whole warps, if the launch is to say it: for its whole vectors, since a
        warp takes the edges along."""
        vectors = max(1, n // self.vec)
        return min(self.lanes, -(-vectors // (self.tiles * WARP)) * WARP) if self.flexible else self.lanes


@cache
def elements(dtype: str) -> tuple[Any, Any]:
    """``load(pointer, i)``, ``store(pointer, i, value)``."""
    load, store = machine.element_functions(dtype)
    return load, store


@cache
def seating(tiling: Tiling) -> Any:
    """``seat()``: this thread's lane, how many lanes its row has, and the row's place among those of the block."""
    ROWS, LANES, FLEXIBLE = tiling.rows, tiling.lanes, tiling.flexible
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    @cuda.jit(device=True, inline="always")
    def whole_block():
        return types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x), types.int64(0)

    @cuda.jit(device=True, inline="always")
    def shared():
        t = cuda.threadIdx.x
        return types.int64(t // LANE_STEP % LANES), types.int64(LANES), types.int64(t // GROUP_STEP % ROWS)

    return whole_block if FLEXIBLE else shared


def word_type(dtype: str, vec: int) -> Any:
    """What a thread's registers hold of a row: elements widened, or halves two to a word."""
    return types.uint32 if machine.is_packed(dtype, vec) else WIDE[dtype]


def spread(dtype: str, vec: int, identity: Any) -> Any:
    """An identity as such a word."""
    if not machine.is_packed(dtype, vec):
        return identity
    wide = np.float32(identity)
    half = int(wide.astype(np.float16).view(np.uint16)) if dtype == "float16" else int(wide.view(np.uint32)) >> 16
    return np.uint32(half << 16 | half)


@cache
def access(
    dtype: str, tiling: Tiling, identity: Any, *, before: bool = False, kept: bool = False
) -> tuple[Any, Any, Any, Any, Any]:
    """``bounds``, ``read``, ``write``, ``read_edge``, ``write_edge``: a thread's share of a row, in and out.

    ``bounds(phase, n)`` is the part [head, end) of a row that whole aligned vectors cover, for a row that begins
    ``phase`` elements past some 16-byte boundary.
    ``read(pointer, base, stride, lane, lanes, head, end, row, k)`` fills the words of ``row`` from k on with the
    thread's share of the tile that begins at element ``head``, and the identity past ``end``; ``write`` is its inverse.
    ``read_edge(pointer, base, lane, head, end, n)`` is the edge element of this lane, or the identity; with ``before``,
    for where other loads follow, none waits for it. ``kept`` is :func:`machine.vector_functions`'s.
    """
    load, store = elements(dtype)
    load_if = machine.guarded_load(dtype)
    load_vector, store_vector = machine.vector_functions(dtype, tiling.vec, kept=kept)
    TILES, VEC, WORDS = tiling.tiles, tiling.vec, tiling.words(dtype) // tiling.tiles
    IDENTITY = spread(dtype, tiling.vec, identity)
    LOW_BITS = VEC - 1
    WHOLE, ACROSS, BEFORE = not tiling.edges, tiling.across, before

    @cuda.jit(device=True, inline="always")
    def bounds(phase, n):
        head = types.int64(0)
        if not WHOLE:
            head = min((-phase) & LOW_BITS, n)
        return head, n - ((n - head) & LOW_BITS)

    @cuda.jit(device=True, inline="always")
    def share(lane, lanes, head, end):
        # Where this thread begins; then in 32 bits, to save registers: how far that is from the end, and to the next.
        first = head + lane * VEC
        left = min(end - first, FAR)
        if ACROSS:  # a row that is not there, beside one that is, ends at 0: 2^31 elements back, and further
            left = max(left, -FAR)
        return first, types.int32(left), types.int32(lanes * VEC)

    @cuda.jit(device=True, inline="always")
    def read(pointer, base, stride, lane, lanes, head, end, row, k):
        first, left, step = share(lane, lanes, head, end)
        for tile in range(TILES):
            for j in range(WORDS):
                row[k + tile * WORDS + j] = IDENTITY
            offset = types.int32(tile * step)
            i = base + (first + offset) * stride if VEC == 1 else base + first + offset
            load_vector(pointer, i, row, k + tile * WORDS, offset < left)

    @cuda.jit(device=True, inline="always")
    def write(pointer, base, stride, lane, lanes, head, end, row, k):
        first, left, step = share(lane, lanes, head, end)
        for tile in range(TILES):
            offset = types.int32(tile * step)
            i = base + (first + offset) * stride if VEC == 1 else base + first + offset
            store_vector(pointer, i, row, k + tile * WORDS, offset < left)

    @cuda.jit(device=True, inline="always")
    def read_edge(pointer, base, lane, head, end, n):
        value = identity
        if not WHOLE:
            i = lane if lane < VEC else end + lane - VEC
            if BEFORE:
                value = load_if(pointer, base + i, i < head if lane < VEC else i < n, identity)
            elif (lane < VEC and i < head) or (lane >= VEC and i < n):
                value = load(pointer, base + i)
        return value

    @cuda.jit(device=True, inline="always")
    def write_edge(pointer, base, lane, head, end, n, value):
        if not WHOLE:
            i = lane if lane < VEC else end + lane - VEC
            if (lane < VEC and i < head) or (lane >= VEC and i < n):
                store(pointer, base + i, value)

    return bounds, read, write, read_edge, write_edge


@cuda.jit(device=True, inline="always")
def begin(r, inner, x_outer, x_inner, out_outer, out_inner):
    """Where row r begins in x and in out. The branch saves a 64-bit division, which costs as much as a short row."""
    source = r * x_outer
    target = r * out_outer
    if inner > 1:
        quotient = r // inner
        remainder = r - quotient * inner
        source = quotient * x_outer + remainder * x_inner
        target = quotient * out_outer + remainder * out_inner
    return source, target


@cuda.jit(device=True, inline="always")
def seat_of(r, inner):
    """Where row r stands along the outer axis and along the inner one, for tensors of any strides."""
    outer, place = r, types.int64(0)
    if inner > 1:
        outer = r // inner
        place = r - outer * inner
    return outer, place


@cuda.jit(device=True, inline="always")
def _add(a, b):
    return a + b


@lru_cache(maxsize=None, typed=True)
def reductions(tiling: Tiling, identity: Any) -> tuple[Any, Any, Any]:
    """``reduce_max``, ``reduce_min``, ``reduce_sum``: of one value a thread, over the lanes of each row.

    ``reduce(value, scratch)`` gives every lane the result, the same bits in each: a butterfly adds the same two numbers
    on both sides, and warps are met in a fixed order. ``scratch`` is shared memory of ``tiling.scratch`` elements; who
    uses it again first puts a barrier in between. ``identity`` is that of the maximum or the minimum.
    """
    zero = type(identity)(0)
    return (
        _reduction(maximum, tiling, identity),
        _reduction(minimum, tiling, identity),
        _reduction(_add, tiling, zero),
    )


def _reduction(combine: Any, tiling: Tiling, identity: Any) -> Any:
    ROWS = tiling.rows
    WARPS = tiling.threads // WARP
    if tiling.across:
        # The lanes of a row that share a warp stand ``rows`` apart.
        reach, low = (WARP, ROWS) if tiling.lanes > 1 else (1, 1)
    else:
        reach, low = min(tiling.lanes, WARP), 1
    STEPS = (reach // low).bit_length() - 1
    FIRST = reach // 2

    @cuda.jit(device=True, inline="always")
    def within_warp(value, scratch):
        for step in range(STEPS):
            value = combine(value, cuda.shfl_xor_sync(EVERY_LANE, value, FIRST >> step))
        return value

    @cuda.jit(device=True, inline="always")
    def over_block(value, scratch):
        for step in range(5):
            value = combine(value, cuda.shfl_xor_sync(EVERY_LANE, value, 16 >> step))
        t = cuda.threadIdx.x
        if t % WARP == 0:
            scratch[t // WARP] = value
        cuda.syncthreads()
        value = identity
        if t % WARP < cuda.blockDim.x // WARP:
            value = scratch[t % WARP]
        for step in range(5):
            value = combine(value, cuda.shfl_xor_sync(EVERY_LANE, value, 16 >> step))
        return value

    @cuda.jit(device=True, inline="always")
    def over_columns(value, scratch):
        for step in range(STEPS):
            value = combine(value, cuda.shfl_xor_sync(EVERY_LANE, value, FIRST >> step))
        t = cuda.threadIdx.x
        row = t % ROWS
        if t % WARP < ROWS:
            scratch[t // WARP * ROWS + row] = value
        cuda.syncthreads()
        value = scratch[row]
        for warp in range(1, WARPS):
            value = combine(value, scratch[warp * ROWS + row])
        cuda.syncthreads()
        return value

    if tiling.across and tiling.lanes > 1 and tiling.threads > WARP:
        return over_columns
    return over_block if not tiling.across and tiling.lanes > WARP else within_warp
