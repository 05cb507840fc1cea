"""A program adds up several rows, block by block: a sum in each lane, and what it rounded off."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import add_exactly, await_last_launch, row_start, whole
from kernelzoo.kernels.triton.row_tiles import tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def sum_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    total = tl.zeros([ROWS, BLOCK], WIDE)
    lost = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, n, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), (row < rows) & (here < n), other=0).to(WIDE)
        total, lost = add_exactly(total, lost, tile)
    result = tl.sum(whole(total, lost), 1, keep_dims=True)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result.to(out.dtype.element_ty), row < rows)


@register("triton", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A sum in each lane with what it rounded off; lanes meet in a tree after the loop."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    tile = tile_of(x, rows)
    wide = wide_type(torch.promote_types(x.dtype, out.dtype))
    args = (x, out, *row_arguments(rows), wide, tile.rows, tile.block)
    return bound("triton/sum/rows", x, sum_kernel, tile.programs, args, tile.warps)
