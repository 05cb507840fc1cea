import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import register_tile
from kernelzoo.kernels.triton.device_functions import accumulate, add_up, await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def add_rms_norm_kernel(
    x, residual, weight, out, total, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, residual_outer, residual_n, residual_inner, total_outer, total_n, total_inner,
    weight_n, EPS: tl.constexpr, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x += row_start(row, inner, x_outer, x_inner, MULTIPLE)
    residual += row_start(row, inner, residual_outer, residual_inner, MULTIPLE)
    out += row_start(row, inner, out_outer, out_inner, MULTIPLE)
    total += row_start(row, inner, total_outer, total_inner, MULTIPLE)
    squares = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    tile, lost = squares, squares
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = (row < rows) & (here < n)
        tile = tl.load(x + here * x_n, mask, other=0).to(ACC_DTYPE)
        tile += tl.load(residual + here * residual_n, mask, other=0).to(ACC_DTYPE)
        rounded = tile.to(total.dtype.element_ty)
        tl.store(total + here * total_n, rounded, mask)
        tile = rounded.to(ACC_DTYPE)
        squares, lost = accumulate(squares, lost, tile * tile, WHOLE)
    scale = 1 / tl.sqrt(tl.sum(add_up(squares, lost), 1, keep_dims=True) / n + EPS)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = (row < rows) & (here < n)
        if not WHOLE:
            tile = tl.load(total + here * total_n, mask, other=0).to(ACC_DTYPE)  # stored by the same thread
        weights = tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
        tl.store(out + here * out_n, (tile * scale * weights).to(out.dtype.element_ty), mask)


@register("triton", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """The sums x + residual are written. A row that fits stays in registers. A longer one is read again, from cache."""
    rows, others = layouts_of(x, out, residual, total)
    tile = register_tile(x, rows, 2)
    constants = (eps, wide_type(x.dtype), tile.rows, tile.block, tile.block >= rows.n)
    args = (x, residual, weight, out, total, *row_arguments(rows, *others), weight.stride(0), *constants)
    return bind_grid("triton/add_rms_norm/rows", add_rms_norm_kernel, tile.programs, args, tile.warps, tensors=5)
