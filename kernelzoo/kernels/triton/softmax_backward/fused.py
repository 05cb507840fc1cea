import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, head_and_body, head_and_tail, row_start
from kernelzoo.kernels.triton.gradients import fused_launch
from kernelzoo.kernels.triton.softmax.device_functions import READ
from kernelzoo.kernels.triton.softmax_backward.columns_kernel import columns_kernel
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, next_power_of_two
from kernelzoo.registry import register

ROW_ELEMENTS, DOUBLE_ELEMENTS = 16, 8
"""Elements of each input per thread of a program with one row, and the same for float64. A thread of softmax, which has
one input, has twice as many."""

FULL_ROW_BYTES = 32768
"""Bytes of a row, in the dtype of the computation, above which a row without edges has the most threads."""


@triton.jit
def fused_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, SINGLE: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of ROWS rows. COLS: a power of two, not below a row's length without its unaligned ends.
    Masked elements are 0 in both inputs, so that they add nothing."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    if SINGLE:  # adds 0, which hides the stride's divisors: a thread then has whole rows, not vectors across rows
        grad_n += tl.program_id(1)
        y_n += tl.program_id(1)
        out_n += tl.program_id(1)
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, COLS)
    AXIS: tl.constexpr = 0 if ROWS == 1 else 1
    if ROWS > 1:
        row = (row * ROWS + tl.arange(0, ROWS))[:, None]
        cols = cols[None, :]
    in_rows = row < rows
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    if EDGES:
        before, inside = head_and_body(grad_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        lane = tl.arange(0, 2 * EDGES)
        edge, known = head_and_tail(lane[None, :] if AXIS == 1 else lane, before, inside, n, EDGES)
        known = known & in_rows
        grad_edges = tl.load(grad + (grad_start + edge), known, other=0).to(ACC_DTYPE)
        y_edges = tl.load(y + (y_start + edge), known, other=0).to(ACC_DTYPE)
        here = align(grad_start, EDGES) + cols
        grad_tile = tl.load(grad + here, mask, other=0, eviction_policy=READ).to(ACC_DTYPE)
        here = align(y_start, EDGES) + cols
        y_tile = tl.load(y + here, mask, other=0, eviction_policy=READ).to(ACC_DTYPE)
        total = tl.sum(grad_tile * y_tile, AXIS, keep_dims=True) + tl.sum(grad_edges * y_edges, AXIS, keep_dims=True)
        here = align(out_start, EDGES) + cols
        tl.store(out + here, (y_tile * (grad_tile - total)).to(DTYPE), mask)
        tl.store(out + (out_start + edge), (y_edges * (grad_edges - total)).to(DTYPE), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0, eviction_policy=READ).to(ACC_DTYPE)
        y_tile = tl.load(y + (y_start + here * y_n), mask, other=0, eviction_policy=READ).to(ACC_DTYPE)
        result = y_tile * (grad_tile - tl.sum(grad_tile * y_tile, AXIS, keep_dims=True))
        tl.store(out + (out_start + here * out_n), result.to(DTYPE), mask)


def row_warps(device: Device, rows: Rows, edges: int) -> int:
    """Return the number of warps for one row. It depends on the row's length, not on that of its padded tile."""
    threads = rows.n // (DOUBLE_ELEMENTS if rows.itemsize == 8 else ROW_ELEMENTS)
    if rows.n * rows.accumulator_bytes > FULL_ROW_BYTES and not edges:
        threads = 1024
    return device.warps(next_power_of_two(max(32, threads) + 1) // 2)


@register("triton", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps a row, several short rows or a strip of columns on chip: both inputs are read once."""
    return fused_launch("triton/softmax_backward/fused", fused_kernel, columns_kernel, (grad, y, out), 2, row_warps)
