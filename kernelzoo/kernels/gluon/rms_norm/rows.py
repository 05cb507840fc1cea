import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def rms_norm_kernel(
    x, weight, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    weight_n, EPS: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    WHOLE: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    squares = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    tile, lost = squares, squares
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there[:, None] & (here < n), other=0).to(ACC_DTYPE)
        squares, lost = dev.accumulate(squares, lost, tile * tile, WHOLE)
    scale = 1 / gl.sqrt(gl.sum(dev.add_up(squares, lost), 1, keep_dims=True) / n + EPS)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        if not WHOLE:
            tile = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
        weights = gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
        gl.store(out_rows + here * out_n, (tile * scale * weights).to(out.dtype.element_ty), mask)


@register("gluon", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """A row that fits in registers is read once. A longer row is read again, from cache, to be scaled and written."""
    rows = rows_of(x, out)
    programs, warps, *tile = make_tile_launch_arguments(rows, register_tile(x, rows))
    args = (x, weight, out, *row_arguments(rows), weight.stride(0), eps, wide_type(x.dtype), *tile, tile[1] >= rows.n)
    return bind_grid("gluon/rms_norm/rows", rms_norm_kernel, programs, args, warps, tensors=3)
