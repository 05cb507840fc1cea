"""A program takes several rows, block by block: a running (max, sum) state in each lane, then the label's logit."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.row_tiles import tile_of
from kernelzoo.kernels.triton.softmax.device_functions import exponential
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@triton.jit
def row_state(x, x_start, x_n, n, in_rows, LOWEST: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
              BLOCK: tl.constexpr):  # fmt: skip
    """(max, sum) of rows, in one pass. Of a row with a NaN or +inf the sum is NaN, of -inf alone 0."""
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf.
    top = tl.full([ROWS, BLOCK], LOWEST, WIDE)
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, n, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < n), other=float("-inf")).to(WIDE)
        rise = tile - top
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = exponential(-tl.abs(rise))
        sums = tl.where(rise > 0, sums * scale + 1, sums + scale)
        top = tl.maximum(top, tile)
    row_top = tl.max(top, 1, keep_dims=True)
    return row_top, tl.sum(sums * exponential(top - row_top), 1, keep_dims=True)


@triton.jit
def cross_entropy_kernel(
    x, labels, loss, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    labels_outer, labels_inner, ignore_index,
    LOWEST: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    top, total = row_state(x, x_start, x_n, n, row < rows, LOWEST, WIDE, ROWS, BLOCK)
    label = tl.load(labels + row_start(row, inner, labels_outer, labels_inner, 1), row < rows, other=0)
    inside = (row < rows) & (label >= 0) & (label < n)
    picked = tl.load(x + (x_start + label * x_n), inside, other=float("nan")).to(WIDE)
    result = tl.where(label == ignore_index, 0, tl.log(total) - (picked - top))
    tl.store(loss + row_start(row, inner, out_outer, out_inner, 1), result.to(loss.dtype.element_ty), row < rows)


@register("triton", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass that keeps a running (max, sum) state in each lane, and one element more."""
    rows, (label,) = rows_with(x, loss, labels)
    tile = tile_of(x, rows, 2)
    constants = (torch.finfo(wide_dtype(x.dtype)).min, wide_type(x.dtype), tile.rows, tile.block)
    args = (x, labels, loss, *row_arguments(rows), label.outer, label.inner, ignore_index, *constants)
    return bound("triton/cross_entropy/rows", x, cross_entropy_kernel, tile.programs, args, tile.warps, tensors=3)
