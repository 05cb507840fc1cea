"""A tile of consecutive short rows to a program, or of rows side by side where memory runs across them."""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.min_backward.arguments import one_a_row
from kernelzoo.kernels.triton.min_backward.words import gradient_tile
from kernelzoo.kernels.triton.softmax.tiles import Numbers, row_tile, single, tile_warps
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def row_tile_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    SINGLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    if SINGLE:  # a zero of which the compiler knows no divisor: a thread has all of a row, and no vector of neighbours
        x_n += tl.program_id(1)
        out_n += tl.program_id(1)
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(WIDE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), in_rows, other=0).to(WIDE)
    cols = tl.arange(0, COLS)[None, :]
    gradient_tile(x, x_start, x_n, least, slope, out, out_start, out_n, in_rows, n, cols, WIDE, EDGES, 1)


@register("triton", "min_backward", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program, which one warp holds.

    Where memory is contiguous across rows (a reduction over dim 0), the tile also makes the loads contiguous.
    """
    rows, others = rows_with(x, out, y, grad)
    device, edges = device_of(x), edges_of(rows)
    knobs = of(Numbers, device.index)
    tile = row_tile(knobs, device, rows, edges)
    if tile is None:
        words = f"no tile holds several rows of {rows.n} elements"
        raise UnsupportedProblemError("triton/min_backward/multi_row_tile", words)
    side, columns = tile
    warps = tile_warps(knobs, device, rows, side * columns) if rows.across else 1
    place = (*row_arguments(rows), *one_a_row(others))
    args = (x, y, grad, out, *place, wide_type(x.dtype), edges, side, columns, single(rows))
    programs = cdiv(rows.total, side)
    return bound("triton/min_backward/multi_row_tile", x, row_tile_kernel, programs, args, warps, tensors=4)
