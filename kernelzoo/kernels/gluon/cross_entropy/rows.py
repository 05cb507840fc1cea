"""A program takes several rows, block by block: a running (max, sum) state in each lane, then the label's logit."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.cross_entropy.device_functions import row_states
from kernelzoo.kernels.gluon.row_tiles import tile_of
from kernelzoo.kernels.gluon.tiles import lowest
from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@gluon.jit
def cross_entropy_kernel(
    x, labels, loss, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    labels_outer, labels_inner, ignore_index,
    LOWEST: gl.constexpr, WIDE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    top, total = row_states(x_rows, x_n, n, cols, there, LOWEST, WIDE, ROWS, BLOCK, LAYOUT)
    label = dev.load_rows(labels, group, place, labels_outer, labels_inner, there, gl.int64)[:, None]
    inside = there[:, None] & (label >= 0) & (label < n)
    picked = gl.load(x_rows + label * x_n, inside, other=float("nan")).to(WIDE)
    result = gl.where(label == ignore_index, 0.0, gl.log(total) - (picked - top)).to(loss.dtype.element_ty)
    gl.store(loss + dev.row_start(group, place, out_outer, out_inner, 1)[:, None], result, there[:, None])


@register("gluon", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass that keeps a running (max, sum) state in each lane, and one element more."""
    rows, (label,) = rows_with(x, loss, labels)
    programs, warps, *tile = tile_of(x, rows, 2)
    constants = (lowest(wide_dtype(x.dtype)), wide_type(x.dtype), *tile)
    args = (x, labels, loss, *row_arguments(rows), label.outer, label.inner, ignore_index, *constants)
    return bound("gluon/cross_entropy/rows", x, cross_entropy_kernel, programs, args, warps, tensors=3)
