"""A tile of rows to a program, which it holds on chip: one long row, several short ones, or a strip of columns."""

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.kernels.triton.min_backward.arguments import one_a_row
from kernelzoo.kernels.triton.min_backward.columns_kernel import launch_of_columns
from kernelzoo.kernels.triton.min_backward.device_functions import shares_of
from kernelzoo.kernels.triton.softmax import fused as row
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.device_functions import READ
from kernelzoo.kernels.triton.softmax.pairs import WRITE
from kernelzoo.kernels.triton.strips import whole_strip
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, power_of_two, rows_with
from kernelzoo.registry import register
from kernelzoo.tables import of

ID = "triton/min_backward/fused"

FEW = 16
"""Rows to a multiprocessor. Of so few, each is spread over as many threads as there is room for, eight elements to one:
(264, 12288) bfloat16 takes 5.4 us by 1024 threads on an H200, 6.2 by 256; (1823, 781) float32 4.7 by 64, 5.0 by 32."""

WHOLE = 2
"""Whole columns are held as if there were two inputs: of twice as many an SM has one program."""


@triton.jit
def fused_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, SINGLE: tl.constexpr,
):  # fmt: skip
    """Program p has ROWS rows from p * ROWS on. COLS is the power of two that holds one."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    if SINGLE:  # a zero of which the compiler knows no divisor: a thread has all of a row, and no vector of neighbours
        x_n += tl.program_id(1)
        out_n += tl.program_id(1)
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, COLS)
    AXIS: tl.constexpr = 0 if ROWS == 1 else 1
    if ROWS > 1:
        row = (row * ROWS + tl.arange(0, ROWS))[:, None]
        cols = cols[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(WIDE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), in_rows, other=0).to(WIDE)
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        lane = tl.arange(0, 2 * EDGES)
        edge, known = edge_columns(lane[None, :] if AXIS == 1 else lane, before, inside, n, EDGES)
        known = known & in_rows
        edges_equal = tl.load(x + (x_start + edge), known, other=float("nan")).to(WIDE) == least
        here = (x_start + EDGES - 1) // EDGES * EDGES + cols
        equal = tl.load(x + here, mask, other=float("nan"), eviction_policy=READ).to(WIDE) == least
        count = tl.sum(equal.to(tl.int32), AXIS, keep_dims=True)
        count += tl.sum(edges_equal.to(tl.int32), AXIS, keep_dims=True)
        each, rest = shares_of(slope, count, DTYPE)
        here = (out_start + EDGES - 1) // EDGES * EDGES + cols
        tl.store(out + here, tl.where(equal, each, rest), mask)
        tl.store(out + (out_start + edge), tl.where(edges_equal, each, rest), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        tile = tl.load(x + (x_start + here * x_n), mask, other=float("nan"), eviction_policy=READ)
        equal = tile.to(WIDE) == least
        each, rest = shares_of(slope, tl.sum(equal.to(tl.int32), AXIS, keep_dims=True), DTYPE)
        tl.store(out + (out_start + here * out_n), tl.where(equal, each, rest), mask)


def warps_of(rows: Rows, device: Device, edges: int) -> int:
    """Warps for one row."""
    warps = row.row_warps(of(row.Numbers, device.index), device, rows, edges)
    if rows.total > FEW * device.multiprocessors:
        return warps
    threads = min(device.threads * device.multiprocessors // max(1, rows.total), rows.n // 8)
    return max(warps, device.warps(power_of_two(threads + 1) // 2))


@register("triton", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A row, several short ones or a strip of columns to a program, which holds them on chip: one read, one write."""
    tensors = (x, y, grad, out)
    rows, others = rows_with(x, out, y, grad)
    device, edges = device_of(x), edges_of(rows)
    strip = whole_strip(rows, device, WHOLE)
    if strip is not None:
        return launch_of_columns(ID, tensors, strip, WRITE)
    numbers = of(tiles.Numbers, device.index)
    tile = tiles.row_tile(numbers, device, rows, edges)
    side, columns = tile or (1, row.row_columns(rows, edges, ID))
    if tile is None:
        warps = warps_of(rows, device, edges)
    else:
        warps = tiles.tile_warps(numbers, device, rows, side * columns) if rows.across else 1
    place = (*row_arguments(rows), *one_a_row(others))
    args = (*tensors, *place, wide_type(x.dtype), edges, side, columns, tiles.single(rows))
    return bound(ID, x, fused_kernel, cdiv(rows.total, side), args, warps, tensors=4)
