import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import choose_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def add_values(a, b):
    return a + b


@gluon.jit
def row_cumsum(
    x_rows, x_n, out_rows, out_n, begin, end, in_rows, total,
    ACC_DTYPE: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Write prefix sums over columns ``begin`` to ``end``, by blocks. total: the sum of columns before ``begin``."""
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    next = gl.load(x_rows + (begin + cols) * x_n, in_rows & (begin + cols < end), other=0)
    for start in range(begin, end, BLOCK):
        here = start + cols
        tile = next.to(ACC_DTYPE)
        # The next block is loaded while this one is added up.
        next = gl.load(x_rows + (here + BLOCK) * x_n, in_rows & (here + BLOCK < end), other=0)
        sums = total + gl.associative_scan(tile, 1, add_values)
        gl.store(out_rows + here * out_n, sums.to(out_rows.dtype.element_ty), in_rows & (here < end))
        total += gl.sum(tile, 1, keep_dims=True)


@gluon.jit
def cumsum_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    total = gl.full([ROWS, 1], 0, ACC_DTYPE, LAYOUT)
    row_cumsum(x_rows, x_n, out_rows, out_n, 0, n, there[:, None], total, ACC_DTYPE, BLOCK, LAYOUT)


@register("gluon", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each block is scanned by a tree of additions. The totals of blocks are added up in order."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    programs, warps, *tile = make_tile_launch_arguments(rows, choose_tile(x, rows))
    args = (x, out, *row_arguments(rows), wide_type(torch.promote_types(x.dtype, out.dtype)), *tile)
    return bind_grid("gluon/cumsum/rows", cumsum_kernel, programs, args, warps)
