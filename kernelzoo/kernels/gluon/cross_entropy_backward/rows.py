"""A program takes several rows, block by block: their (max, sum) states, and then reads them again to write."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.cross_entropy.device_functions import row_states
from kernelzoo.kernels.gluon.row_tiles import tile_of
from kernelzoo.kernels.gluon.softmax.device_functions import exponential
from kernelzoo.kernels.gluon.tiles import lowest
from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@gluon.jit
def backward_kernel(
    x, labels, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    labels_outer, labels_inner, grad_outer, grad_inner, ignore_index,
    LOWEST: gl.constexpr, WIDE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    label = dev.load_rows(labels, group, place, labels_outer, labels_inner, there, gl.int64)[:, None]
    factor = dev.load_rows(grad, group, place, grad_outer, grad_inner, there, WIDE)[:, None]
    factor = gl.where((label >= 0) & (label < n), factor, float("nan"))
    top, total = row_states(x_rows, x_n, n, cols, there, LOWEST, WIDE, ROWS, BLOCK, LAYOUT)
    inverse = 1 / total
    for start in range(0, n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        tile = gl.load(x_rows + here * x_n, mask, other=0).to(WIDE)
        share = exponential(tile - top) * inverse
        result = gl.where(label == ignore_index, 0.0, factor * (share - gl.where(here == label, 1.0, 0.0)))
        gl.store(out_rows + here * out_n, result.to(out.dtype.element_ty), mask)


@register("gluon", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """A pass for the (max, sum) states of rows, and one, from cache, that writes."""
    rows, (label, factor) = rows_with(x, out, labels, grad)
    programs, warps, *tile = tile_of(x, rows, 2)
    strides = (label.outer, label.inner, factor.outer, factor.inner)
    constants = (lowest(wide_dtype(x.dtype)), wide_type(x.dtype), *tile)
    args = (x, labels, grad, out, *row_arguments(rows), *strides, ignore_index, *constants)
    return bound("gluon/cross_entropy_backward/rows", x, backward_kernel, programs, args, warps, tensors=4)
