import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import choose_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def row_cumsum(x, x_n, out, out_n, begin, end, in_rows, total, ACC_DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    """Write prefix sums over columns ``begin`` to ``end``, by blocks. total: the sum of columns before ``begin``."""
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    next = tl.load(x + (begin + cols) * x_n, in_rows & (begin + cols < end), other=0)
    for start in range(begin, end, BLOCK):
        here = start + cols
        tile = next.to(ACC_DTYPE)
        # The next block is loaded while this one is added up.
        next = tl.load(x + (here + BLOCK) * x_n, in_rows & (here + BLOCK < end), other=0)
        sums = total + tl.cumsum(tile, 1)
        tl.store(out + here * out_n, sums.to(out.dtype.element_ty), in_rows & (here < end))
        total += tl.sum(tile, 1, keep_dims=True)


@triton.jit
def cumsum_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x += row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out += row_start(row, inner, out_outer, out_inner, MULTIPLE)
    row_cumsum(x, x_n, out, out_n, 0, n, row < rows, tl.zeros([ROWS, 1], ACC_DTYPE), ACC_DTYPE, BLOCK)


@register("triton", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each block is scanned by a tree of additions. The totals of blocks are added up in order."""
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    rows = rows_of(x, out)
    tile = choose_tile(x, rows)
    wide = wide_type(torch.promote_types(x.dtype, out.dtype))
    args = (x, out, *row_arguments(rows), wide, tile.rows, tile.block)
    return bind_grid("triton/cumsum/rows", cumsum_kernel, tile.programs, args, tile.warps)
