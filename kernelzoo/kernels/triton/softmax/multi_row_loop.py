import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.device_functions import softmax_row
from kernelzoo.kernels.triton.softmax.tiles import row_warps, single_row_tile_length
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of


@form_knobs
class Knobs:
    rows_per_program: int = knob(  # enough to spread the cost of starting a program, few enough for an even last wave
        4, among=(2, 4, 8), unit="rows", why="of multi_row's guarded loop over long rows"
    )


@triton.jit
def row_loop_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr,
    COLS: tl.constexpr, ROWS_PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    first = tl.program_id(0).to(tl.int64) * ROWS_PER_PROGRAM
    cols = tl.arange(0, COLS)
    for i in range(ROWS_PER_PROGRAM):
        row = first + i
        if row < rows:
            x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
            out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
            softmax_row(x, x_start, x_n, out, out_start, out_n, n, cols, ACC_DTYPE, EDGES)


@register("triton", "softmax", "multi_row_loop")
def multi_row_loop(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program takes several consecutive rows, one after the other, and keeps each on chip."""
    rows, device = rows_of(x, out), device_of(x)
    edges = edge_vector_size(rows)
    side = of(Knobs, device.index).rows_per_program
    columns = single_row_tile_length(rows, edges, "triton/softmax/multi_row_loop")
    warps = row_warps(of(tiles.Knobs, device.index), device, rows, edges)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), edges, columns, side)
    return bind_grid("triton/softmax/multi_row_loop", row_loop_kernel, cdiv(rows.total, side), args, warps)
