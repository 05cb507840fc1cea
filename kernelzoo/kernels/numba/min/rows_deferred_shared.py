"""Short rows off the boundaries of vectors, as one piece of memory by way of shared memory, a thread to a row."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import STORAGE, itemsize
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, shared_bytes, within_grid
from kernelzoo.kernels.numba.row import elements
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, machine, minimum
from kernelzoo.layout import VECTOR_BYTES, cdiv
from kernelzoo.registry import register

ID = "numba/min/rows_deferred_shared"
TILE_ROWS = 128
"""A block of 128 threads, one to a row."""
UNASKED = 48 * 1024
"""Bytes of shared memory that a block has on any device."""


@cache
def rows_deferred_tile_kernel(dtype: str) -> Source:
    """A block takes TILE_ROWS consecutive short rows, a thread each, by way of shared memory: as one piece of memory
    they are copied in whole vectors, wherever the rows begin."""
    storage = STORAGE[dtype]
    load, store = elements(dtype)
    copy_in, wait_copies, _, widened, set_narrow = machine.tile_functions(dtype)
    VEC, ROWS = VECTOR_BYTES // itemsize(dtype), TILE_ROWS

    def deferred_tile(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(0, storage, ALIGNED)
        t = types.int64(cuda.threadIdx.x)
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
            j += ROWS
        if t < head:
            set_narrow(tile, begins + t, load(x, base + t))
        if tail + t < count:
            set_narrow(tile, begins + tail + t, load(x, base + tail + t))
        wait_copies()
        cuda.syncthreads()
        if t < held:
            at = begins + t * n
            smallest = widened(tile, at)
            i = types.int64(1)
            while i + 3 < n:
                first_two = minimum(widened(tile, at + i), widened(tile, at + i + 1))
                last_two = minimum(widened(tile, at + i + 2), widened(tile, at + i + 3))
                smallest = minimum(smallest, minimum(first_two, last_two))
                i += 4
            while i < n:
                smallest = minimum(smallest, widened(tile, at + i))
                i += 1
            store(out, (first + t) * out_outer, smallest)

    return Source(deferred_tile, (dtype, dtype), TILE_ROWS, (dtype,))


def shared_for(v: View) -> int:
    """Bytes of shared memory for the rows of a block, wherever they begin in a vector."""
    return TILE_ROWS * v.n * v.itemsize + VECTOR_BYTES


def takes(v: View, device: Device) -> bool:
    """Whether these are rows without a gap, so short that shared memory holds those of a block."""
    return v.one_piece and shared_for(v) <= max(UNASKED, shared_bytes(device))


@register("numba", "min", "rows_deferred_shared")
@planned()
def rows_deferred_shared(v: View, device: Device, _: None) -> BindView:
    """Short rows as one piece of memory by way of shared memory, a thread to a row."""
    if not takes(v, device):
        raise UnsupportedProblemError(ID, f"these are not short rows without a gap, {TILE_ROWS} in shared memory")
    grid = within_grid(ID, cdiv(v.total, TILE_ROWS))
    return prepare(rows_deferred_tile_kernel(v.dtype), device).call(grid, *v.offsets, shared=shared_for(v))
