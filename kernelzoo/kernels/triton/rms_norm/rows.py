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
def rms_norm_kernel(
    x, weight, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    weight_n, EPS: tl.constexpr, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    squares = tl.zeros([ROWS, BLOCK], ACC_DTYPE)
    tile, lost = squares, squares
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), (row < rows) & (here < n), other=0).to(ACC_DTYPE)
        squares, lost = accumulate(squares, lost, tile * tile, WHOLE)
    scale = 1 / tl.sqrt(tl.sum(add_up(squares, lost), 1, keep_dims=True) / n + EPS)
    for start in range(0, BLOCK if WHOLE else n, BLOCK):
        here = start + cols
        mask = (row < rows) & (here < n)
        if not WHOLE:
            tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
        weights = tl.load(weight + here * weight_n, here < n, other=0).to(ACC_DTYPE)
        tl.store(out + (out_start + here * out_n), (tile * scale * weights).to(out.dtype.element_ty), mask)


@register("triton", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """A row that fits in registers is read once. A longer row is read again, from cache, to be scaled and written."""
    rows = rows_of(x, out)
    tile = register_tile(x, rows)
    constants = (eps, wide_type(x.dtype), tile.rows, tile.block, tile.block >= rows.n)
    args = (x, weight, out, *row_arguments(rows), weight.stride(0), *constants)
    return bind_grid("triton/rms_norm/rows", rms_norm_kernel, tile.programs, args, tile.warps, tensors=3)
