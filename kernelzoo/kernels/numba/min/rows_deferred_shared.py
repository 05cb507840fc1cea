"""Short rows off the boundaries of vectors, as one piece of memory by way of shared memory, a thread to a row."""

from __future__ import annotations

from functools import cache

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import STORAGE, itemsize
from kernelzoo.kernels.numba.launch import OFFSETS, BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import ALIGNED, elements, machine, minimum, pointer
from kernelzoo.kernels.numba.source import Source
from kernelzoo.launch import Launch
from kernelzoo.layout import VECTOR_BYTES, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

ID = "numba/min/rows_deferred_shared"
TILE_ROWS = 128
"""A block of 128 threads, one to a row."""


@numbers
class Numbers:
    """What depends on the card. Shipped values are an H200's."""

    # 32 kB a block, of which an SM holds six.
    tile_row_bytes: int = knob(
        256,
        among=(64, 128, 256),
        unit="bytes",
        why="of rows off the boundaries of vectors, read as one piece of memory",
    )


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

    return Source(deferred_tile, (pointer(dtype), pointer(dtype), *OFFSETS), TILE_ROWS, (dtype,))


def takes(v: View, numbers: Numbers) -> bool:
    """Whether these are short rows without a gap between them."""
    return v.one_piece and v.n * v.itemsize <= numbers.tile_row_bytes


@register("numba", "min", "rows_deferred_shared")
def rows_deferred_shared(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Short rows as one piece of memory by way of shared memory, a thread to a row."""
    return planned(plan, Numbers, x, out)


def plan(v: View, device: Device, numbers: Numbers) -> BindView:
    if not takes(v, numbers):
        most = numbers.tile_row_bytes
        raise UnsupportedProblemError(ID, f"these are not rows of up to {most} bytes without a gap between them")
    grid = within_grid(ID, cdiv(v.total, TILE_ROWS))
    shared = TILE_ROWS * v.n * v.itemsize + VECTOR_BYTES
    return prepare(rows_deferred_tile_kernel(v.dtype), device).call(grid, *v.offsets, shared=shared)
