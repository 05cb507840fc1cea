"""A program takes several rows, block by block: a running (max, sum) state in each lane, in one pass."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import tile_of
from kernelzoo.kernels.gluon.softmax.device_functions import exponential
from kernelzoo.kernels.gluon.tiles import lowest
from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def logsumexp_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    WIDE: gl.constexpr, LOWEST: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf.
    top = gl.full([ROWS, BLOCK], LOWEST, WIDE, LAYOUT)
    sums = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
    for start in range(0, n, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there[:, None] & (here < n), other=float("-inf")).to(WIDE)
        rise = gl.where(tile == top, 0.0, tile - top)  # inf - inf would be NaN
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = exponential(-gl.abs(rise))
        sums = gl.where(rise > 0, sums * scale + 1, sums + scale)
        top = gl.maximum(top, tile)
    row_top = gl.max(top, 1, keep_dims=True)  # a NaN may be lost here: it is in the sum
    total = gl.sum(sums * exponential(gl.where(top == row_top, 0.0, top - row_top)), 1, keep_dims=True)
    result = (row_top + gl.log(total)).to(out.dtype.element_ty)
    gl.store(out + dev.row_start(group, place, out_outer, out_inner, 1)[:, None], result, there[:, None])


@register("gluon", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass that keeps a running (max, sum) state in each lane; lanes meet after the loop."""
    rows = rows_of(x, out)
    programs, warps, *tile = tile_of(x, rows, 2)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), lowest(wide_dtype(x.dtype)), *tile)
    return bound("gluon/logsumexp/rows", x, logsumexp_kernel, programs, args, warps)
