import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.layer_norm.device_functions import row_means
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def layer_norm_kernel(
    x, weight, bias, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    weight_n, bias_n, EPS: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr,
    LAYOUT: gl.constexpr, WHOLE: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    squares = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    lost = squares
    if WHOLE:
        tile = gl.load(x_rows + cols * x_n, there[:, None] & (cols < n), other=0).to(ACC_DTYPE)
        mean = gl.sum(tile, 1, keep_dims=True) / n
    else:
        tile = squares
        mean = row_means(x_rows, x_n, n, cols, there, ACC_DTYPE, ROWS, BLOCK, LAYOUT, WHOLE)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        if not WHOLE:
            tile = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
        away = gl.where(mask, tile - mean, 0.0)
        squares, lost = dev.accumulate(squares, lost, away * away, WHOLE)
    scale = 1 / gl.sqrt(gl.sum(dev.add_up(squares, lost), 1, keep_dims=True) / n + EPS)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        if not WHOLE:
            tile = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
        away = tile - mean
        weights = gl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
        biases = gl.load(bias + here * bias_n, here < n, other=0).to(ACC_DTYPE)
        gl.store(out_rows + here * out_n, (away * scale * weights + biases).to(out.dtype.element_ty), mask)


@register("gluon", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean is computed before the variance. A row that doesn't fit in registers is read three times."""
    rows = rows_of(x, out)
    programs, warps, *tile = make_tile_launch_arguments(rows, register_tile(x, rows))
    constants = (eps, wide_type(x.dtype), *tile, tile[1] >= rows.n)
    args = (x, weight, bias, out, *row_arguments(rows), weight.stride(0), bias.stride(0), *constants)
    return bind_grid("gluon/layer_norm/rows", layer_norm_kernel, programs, args, warps, tensors=4)
