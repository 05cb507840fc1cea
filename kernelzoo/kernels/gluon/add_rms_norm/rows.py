import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def add_rms_norm_kernel(
    x, residual, weight, out, total, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, residual_outer, residual_n, residual_inner, total_outer, total_n, total_inner,
    weight_n, EPS: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
    WHOLE: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    residual_rows = residual + dev.row_start(group, place, residual_outer, residual_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    total_rows = total + dev.row_start(group, place, total_outer, total_inner, MULTIPLE)[:, None]
    squares = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    tile, lost = squares, squares
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        tile = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
        tile += gl.load(residual_rows + here * residual_n, mask, other=0).to(ACC_DTYPE)
        rounded = tile.to(total.dtype.element_ty)
        gl.store(total_rows + here * total_n, rounded, mask)
        tile = rounded.to(ACC_DTYPE)
        squares, lost = dev.accumulate(squares, lost, tile * tile, WHOLE)
    scale = 1 / gl.sqrt(gl.sum(dev.add_up(squares, lost), 1, keep_dims=True) / n + EPS)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        if not WHOLE:
            tile = gl.load(total_rows + here * total_n, mask, other=0).to(ACC_DTYPE)  # stored by the same thread
        weights = gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
        gl.store(out_rows + here * out_n, (tile * scale * weights).to(out.dtype.element_ty), mask)


@register("gluon", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """The sums x + residual are written. A row that fits stays in registers. A longer one is read again, from cache."""
    rows, others = layouts_of(x, out, residual, total)
    programs, warps, *tile = make_tile_launch_arguments(rows, register_tile(x, rows, 2))
    constants = (eps, wide_type(x.dtype), *tile, tile[1] >= rows.n)
    args = (x, residual, weight, out, total, *row_arguments(rows, *others), weight.stride(0), *constants)
    return bind_grid("gluon/add_rms_norm/rows", add_rms_norm_kernel, programs, args, warps, tensors=5)
