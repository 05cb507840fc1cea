"""One program to a row, of which it holds both inputs on chip: each is read once, and the result written."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.softmax_backward.tiles import row_columns, row_warps
from kernelzoo.kernels.triton.softmax_backward.words import gradient_tile
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@triton.jit
def fused_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program r has row r. COLS is the power of two that holds it: ``gradient_tile`` masks what lies past its end."""
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    cols = tl.arange(0, COLS)
    gradient_tile(grad, grad_start, grad_n, y, y_start, y_n, out, out_start, out_n, row < rows, n, cols, WIDE, EDGES, 0)


@register("triton", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, of which it holds both inputs on chip: each is read once, and the result written."""
    rows, (weights,) = rows_with(grad, out, y)
    device, edges = device_of(grad), edges_of(rows, weights)
    columns = row_columns(rows, edges, "triton/softmax_backward/fused")
    args = (grad, y, out, *row_arguments(rows, weights), wide_type(grad.dtype), edges, columns)
    warps = row_warps(device, rows, edges)
    return bound("triton/softmax_backward/fused", grad, fused_kernel, rows.total, args, warps, tensors=3)
