"""Short rows of any length, copied through shared memory as one piece: two lanes a row at most."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import elements
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, EVERY_LANE, exponential, machine, maximum
from kernelzoo.layout import VECTOR_BYTES, cdiv, power_of_two
from kernelzoo.registry import register

TILE_THREADS = 128
"""In a block."""
TILE_STEP = 8
"""Elements a thread, in steps of which row lengths share a kernel."""
TILE_ITEMS = 64
"""Elements that a thread's registers hold beside the rest; of float64 a quarter, for its exponential takes many."""
TILE_LANES = 2
"""Threads to a row at most: rows of over 128 elements have lanes and vectors enough without shared memory."""


@cache
def multi_row_shared_kernel(dtype: str, lanes: int, items: int) -> Source:
    """A block takes consecutive rows of up to ``lanes * items`` elements, ``lanes`` threads each, by shared memory.

    Rows whose length is no multiple of a vector begin anywhere between two boundaries of 16 bytes, but as one piece of
    memory they are copied whole, without a register. A thread then finds its row some odd number of elements from its
    neighbours', so that the banks of shared memory seldom collide.
    """
    kind, storage = WIDE[dtype], STORAGE[dtype]
    LOWEST: Any = lowest(dtype)
    ZERO, ONE = type(LOWEST)(0), type(LOWEST)(1)
    load, store = elements(dtype)
    copy_in, wait_copies, copy_out, widened, set_narrow = machine.tile_functions(dtype)
    VEC, THREADS = VECTOR_BYTES // itemsize(dtype), TILE_THREADS
    LANES, ROWS, ITEMS, SURE = lanes, TILE_THREADS // lanes, items, items - TILE_STEP
    HELD, STEPS, FIRST = TILE_THREADS * items + VEC, lanes.bit_length() - 1, lanes // 2

    def multi_row_shared(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(HELD, storage, ALIGNED)
        row = cuda.local.array(ITEMS, kind)
        t = types.int64(cuda.threadIdx.x)
        lane = t % LANES
        first = types.int64(cuda.blockIdx.x) * ROWS
        base = first * n
        held = min(types.int64(ROWS), rows - first)
        count = held * n
        begins = (phase + base) % VEC  # the same place between two boundaries as in memory
        head = min((VEC - begins) % VEC, count)
        vectors = (count - head) // VEC
        tail = head + vectors * VEC
        j = t
        while j < vectors:
            copy_in(x, base + head + j * VEC, tile, begins + head + j * VEC)
            j += THREADS
        if t < head:
            set_narrow(tile, begins + t, load(x, base + t))
        if tail + t < count:
            set_narrow(tile, begins + tail + t, load(x, base + tail + t))
        wait_copies()
        cuda.syncthreads()

        at = begins + t // LANES * n + lane
        left = n - lane  # threads past the last row go along, for the shuffles, over what no one copies out
        m = LOWEST
        for i in range(ITEMS):
            row[i] = LOWEST
            if i < SURE or i * LANES < left:
                row[i] = widened(tile, at + i * LANES)
            m = maximum(m, row[i])
        for step in range(STEPS):
            m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, FIRST >> step))
        shift = m if m > LOWEST else ZERO
        s, part = ZERO, ZERO
        for i in range(ITEMS):
            row[i] = exponential(row[i] - shift)
            part += row[i]  # of eight: one sum of equal terms, all rounded the same way, would be off too far
            if i % 8 == 7 or i + 1 == ITEMS:
                s += part
                part = ZERO
        for step in range(STEPS):
            s += cuda.shfl_xor_sync(EVERY_LANE, s, FIRST >> step)
        scale = ONE / s
        for i in range(ITEMS):
            if i < SURE or i * LANES < left:
                set_narrow(tile, at + i * LANES, row[i] * scale)
        cuda.syncthreads()

        j = t
        while j < vectors:
            copy_out(tile, begins + head + j * VEC, out, base + head + j * VEC)
            j += THREADS
        if t < head:
            store(out, base + t, widened(tile, begins + t))
        if tail + t < count:
            store(out, base + tail + t, widened(tile, begins + tail + t))

    # Seven blocks an SM leave a thread 72 registers, for 40 elements and the rest; five leave 96, for 64.
    blocks = 7 if items <= 40 else 5
    return Source(multi_row_shared, (dtype, dtype), TILE_THREADS, (dtype, lanes, items), blocks)


def shared_shape(v: View) -> tuple[int, int] | None:
    """``(lanes, items)`` of the kernel above, or None where that is not the one to take."""
    limit = TILE_ITEMS // 4 if v.dtype == "float64" else TILE_ITEMS
    if not (v.edges and v.one_piece and v.whole):
        return None
    lanes = power_of_two(-(-v.n // limit))
    items = -(-v.n // (lanes * TILE_STEP)) * TILE_STEP
    return (lanes, items) if lanes <= TILE_LANES else None


@register("numba", "softmax", "multi_row_shared")
@planned()
def multi_row_shared(v: View, device: Device, _: None) -> BindView:
    """Short rows that begin anywhere, one piece of memory that is copied whole through shared memory."""
    id, shape = "numba/softmax/multi_row_shared", shared_shape(v)
    if shape is None:
        raise UnsupportedProblemError(id, "it takes short rows off the boundaries of vectors, that are one piece")
    grid = within_grid(id, cdiv(v.total, TILE_THREADS // shape[0]))
    return prepare(multi_row_shared_kernel(v.dtype, *shape), device).call(grid, *v.offsets)
