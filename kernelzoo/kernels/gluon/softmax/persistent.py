"""Softmax after Triton's tutorial python/tutorials/02-fused-softmax.py in its last version.

The pipeline is explicit. Copies have 16 bytes, so rows must consist of complete 16-byte vectors.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.device_functions import exponential, zero_if_empty
from kernelzoo.kernels.shared.held_rows import check_fits
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import next_power_of_two, rows_of
from kernelzoo.registry import register

copy = async_copy.async_load if hasattr(async_copy, "async_load") else async_copy.async_copy_global_to_shared
"""The function that starts a copy to shared memory (``cp.async``). Before Triton 3.9, it has another name."""

STAGES = 4
"""The most rows that a program prefetches or uses at once."""

THREAD_BYTES = 64
"""Bytes of a row per thread, in the dtype of the computation. Threads of very long rows have more."""

REDUCTION_BYTES = 4096
"""Bytes of shared memory for reductions, in addition to the ring of prefetched rows."""


@gluon.jit
def start_row_copy(x, ring, slot, row, rows, n, inner, x_outer, x_inner, cols, MULTIPLE: gl.constexpr):
    """Start an asynchronous copy of a row into a slot of the ring. Past the last row, the group of copies is empty."""
    row = row.to(gl.int64)
    start = (row // inner * x_outer + row % inner * x_inner) * MULTIPLE
    copy(ring.index(slot), x + start + cols, (cols < n) & (row < rows))
    async_copy.commit_group()


@gluon.jit
def persistent_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, COLS: gl.constexpr, STAGES: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Compute softmax of a program's rows. A thread reads only its own copies, so it waits for no other thread's."""
    dev.await_last_launch()
    n *= MULTIPLE
    cols = gl.arange(0, COLS, LAYOUT)
    ring = gl.allocate_shared_memory(x.dtype.element_ty, [STAGES, COLS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    first = gl.program_id(0).to(gl.int64)
    step = gl.num_programs(0)
    for ahead in gl.static_range(STAGES - 1):
        start_row_copy(x, ring, ahead, first + ahead * step, rows, n, inner, x_outer, x_inner, cols, MULTIPLE)
    slot = 0
    for i in range(first, rows, step):
        row = gl.cast(i, gl.int64)
        free = (slot + STAGES - 1) % STAGES
        start_row_copy(x, ring, free, row + (STAGES - 1) * step, rows, n, inner, x_outer, x_inner, cols, MULTIPLE)
        async_copy.wait_group(STAGES - 1)  # all groups but the last STAGES - 1 have arrived
        tile = gl.where(cols < n, ring.index(slot).load(LAYOUT).to(ACC_DTYPE), float("-inf"))
        exponentials = exponential(tile - zero_if_empty(gl.max(tile, 0)))
        result = exponentials * (1.0 / gl.sum(exponentials, 0))
        start = (row // inner * out_outer + row % inner * out_inner) * MULTIPLE
        gl.store(out + start + cols, result.to(out.dtype.element_ty), cols < n)
        slot = (slot + 1) % STAGES
    async_copy.wait_group(0)  # no copy may be pending when another program gets this memory


@register("gluon", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid that fills the device once strides over rows. The next rows are prefetched to shared memory."""
    id, rows, device = "gluon/softmax/persistent", rows_of(x, out), device_of(x)
    vector = tiles.choose_vector_width(rows)
    if vector != rows.vector_elements or edge_vector_size(rows):
        why = "asynchronous copies are of 16 bytes, and these rows are not whole vectors of so many"
        raise UnsupportedProblemError(id, why)
    check_fits(id, rows, 1)
    cols = next_power_of_two(rows.n)
    stages = min(STAGES, (device.shared_per_block - REDUCTION_BYTES) // (cols * rows.itemsize))
    warps = device.warps(cols * rows.accumulator_bytes // THREAD_BYTES)
    layout = gl.BlockedLayout([vector], [tiles.LANES], [warps], [0])
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), cols, stages, layout)
    return bind_grid(id, persistent_kernel, lambda each: min(rows.total, device.multiprocessors * each), args, warps)
