"""Softmax after Triton's tutorial python/tutorials/02-fused-softmax.py in its first version."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential, zero_if_empty
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.softmax.device_functions import READ, write_unaligned_row
from kernelzoo.kernels.triton.softmax.tiles import Knobs, row_warps_and_register_limit, single_row_tile_length
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def fused_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute softmax of one row. COLS: a power of two that covers the row. Columns past the row's end are -inf."""
    await_last_launch()
    n *= MULTIPLE
    number = tl.program_id(0).to(tl.int64)
    x_start = row_start(number, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(number, inner, out_outer, out_inner, MULTIPLE)
    cols = tl.arange(0, COLS)
    if EDGES:  # the row starts or ends inside a 16-byte vector
        write_unaligned_row(x, x_start, out, out_start, n, cols, ACC_DTYPE, EDGES)
    else:
        mask = cols < n
        here = cols.to(tl.int64)
        tile = tl.load(x + x_start + here * x_n, mask, other=float("-inf"), eviction_policy=READ)
        target = out + out_start + here * out_n
        row = tile.to(ACC_DTYPE)
        # tl.max drops a NaN, and the sum brings it back: exp(NaN - max) is NaN.
        numerator = exponential(row - zero_if_empty(tl.max(row, 0, keep_dims=True)))
        result = numerator * (1.0 / tl.sum(numerator, 0, keep_dims=True))
        tl.store(target, result.to(out.dtype.element_ty), mask)


@register("triton", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row keeps the row on chip: one read, one write."""
    id, rows, device = "triton/softmax/fused", rows_of(x, out), device_of(x)
    edges = edge_vector_size(rows)
    columns = single_row_tile_length(rows, edges, id)
    warps, options = row_warps_and_register_limit(of(Knobs, device.index), device, rows, edges)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), edges, columns)
    return bind_grid(id, fused_kernel, rows.total, args, warps, **options)
