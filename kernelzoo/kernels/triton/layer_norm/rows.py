import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.kernels.triton.device_functions import accumulate, add_up, await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def row_mean(
    x, x_start, x_n, n, in_rows, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr
):
    total = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    lost = total
    for start in range(0, n, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < n), other=0).to(ACC_DTYPE)
        total, lost = accumulate(total, lost, tile, WHOLE)
    return tl.sum(add_up(total, lost), 1, keep_dims=True) / n


@triton.jit
def layer_norm_kernel(
    x, weight, bias, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    weight_n, bias_n, EPS: tl.constexpr,
    ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    squares = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    lost = squares
    if WHOLE:
        tile = tl.load(x + (x_start + cols * x_n), (row < rows) & (cols < n), other=0).to(ACC_DTYPE)
        mean = tl.sum(tile, 1, keep_dims=True) / n
    else:
        tile = squares
        mean = row_mean(x, x_start, x_n, n, row < rows, ACC_DTYPE, ROWS, BLOCK, WHOLE)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = (row < rows) & (here < n)
        if not WHOLE:
            tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
        away = tl.where(mask, tile - mean, 0)
        squares, lost = accumulate(squares, lost, away * away, WHOLE)
    scale = 1 / tl.sqrt(tl.sum(add_up(squares, lost), 1, keep_dims=True) / n + EPS)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = (row < rows) & (here < n)
        if not WHOLE:
            tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
        away = tile - mean
        weights = tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
        biases = tl.load(bias + here * bias_n, here < n, other=0).to(ACC_DTYPE)
        tl.store(out + (out_start + here * out_n), (away * scale * weights + biases).to(out.dtype.element_ty), mask)


@register("triton", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean is computed before the variance. A row that doesn't fit in registers is read three times."""
    rows = rows_of(x, out)
    tile = register_tile(x, rows)
    constants = (eps, wide_type(x.dtype), tile.rows, tile.block, tile.block >= rows.n)
    args = (x, weight, bias, out, *row_arguments(rows), weight.stride(0), bias.stride(0), *constants)
    return bind_grid("triton/layer_norm/rows", layer_norm_kernel, tile.programs, args, tile.warps, tensors=4)
