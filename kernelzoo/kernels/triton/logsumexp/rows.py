"""A program takes several rows, block by block: a running (max, sum) state in each lane, in one pass."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.row_tiles import tile_of
from kernelzoo.kernels.triton.softmax.device_functions import exponential
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def logsumexp_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, LOWEST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf.
    top = tl.full([ROWS, BLOCK], LOWEST, WIDE)
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, n, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), (row < rows) & (here < n), other=float("-inf")).to(WIDE)
        rise = tl.where(tile == top, 0, tile - top)  # inf - inf would be NaN
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = exponential(-tl.abs(rise))
        sums = tl.where(rise > 0, sums * scale + 1, sums + scale)
        top = tl.maximum(top, tile)
    row_top = tl.max(top, 1, keep_dims=True)  # a NaN may be lost here: it is in the sum
    total = tl.sum(sums * exponential(tl.where(top == row_top, 0, top - row_top)), 1, keep_dims=True)
    result = row_top + tl.log(total)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result.to(out.dtype.element_ty), row < rows)


@register("triton", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass that keeps a running (max, sum) state in each lane; lanes meet after the loop."""
    rows = rows_of(x, out)
    tile = tile_of(x, rows, 2)
    lowest = torch.finfo(wide_dtype(x.dtype)).min
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), lowest, tile.rows, tile.block)
    return bound("triton/logsumexp/rows", x, logsumexp_kernel, tile.programs, args, tile.warps)
