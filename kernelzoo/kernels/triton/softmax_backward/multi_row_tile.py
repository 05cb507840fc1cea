"""A tile of consecutive short rows to a program, or of rows side by side where memory runs across them."""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.softmax.tiles import Numbers, row_tile, single, tile_warps
from kernelzoo.kernels.triton.softmax_backward.words import gradient_tile
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def row_tile_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    SINGLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    if SINGLE:  # a zero of which the compiler knows no divisor: a thread has all of a row, and no vector of neighbours
        grad_n += tl.program_id(1)
        y_n += tl.program_id(1)
        out_n += tl.program_id(1)
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    cols = tl.arange(0, COLS)[None, :]
    gradient_tile(grad, grad_start, grad_n, y, y_start, y_n, out, out_start, out_n, row < rows, n, cols, WIDE, EDGES, 1)


@register("triton", "softmax_backward", "multi_row_tile")
def multi_row_tile(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program, which one warp holds.

    Where memory is contiguous across rows (a reduction over dim 0), the tile also makes the loads contiguous.
    """
    rows, (weights,) = rows_with(grad, out, y)
    device, edges = device_of(grad), edges_of(rows, weights)
    knobs = of(Numbers, device.index)
    tile = row_tile(knobs, device, rows, edges)
    if tile is None:
        words = f"no tile holds several rows of {rows.n} elements"
        raise UnsupportedProblemError("triton/softmax_backward/multi_row_tile", words)
    side, columns = tile
    warps = tile_warps(knobs, device, rows, 2 * side * columns) if rows.across else 1  # of both inputs
    args = (grad, y, out, *row_arguments(rows, weights), wide_type(grad.dtype), edges, side, columns, single(rows))
    programs = cdiv(rows.total, side)
    return bound("triton/softmax_backward/multi_row_tile", grad, row_tile_kernel, programs, args, warps, tensors=3)
