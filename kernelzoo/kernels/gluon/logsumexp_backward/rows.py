import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import make_tile_launch_arguments
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import choose_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def backward_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner,
    ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None]
    of_row = dev.load_per_row(y, group, place, y_outer, y_inner, there, ACC_DTYPE)[:, None]
    factor = dev.load_per_row(grad, group, place, grad_outer, grad_inner, there, ACC_DTYPE)[:, None]
    for start in range(0, n, BLOCK):
        here = start + cols
        mask = there[:, None] & (here < n)
        tile = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
        result = factor * exponential(tile - of_row)
        gl.store(out_rows + here * out_n, result.to(out.dtype.element_ty), mask)


@register("gluon", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """The gradient is exp(x - y) * grad, with y and grad of the element's row. It takes one read and one write."""
    rows, (ys, grads) = layouts_of(x, out, y, grad)
    programs, warps, *tile = make_tile_launch_arguments(rows, choose_tile(x, rows))
    strides = (ys.outer, ys.inner, grads.outer, grads.inner)
    args = (x, y, grad, out, *row_arguments(rows), *strides, wide_type(x.dtype), *tile)
    return bind_grid("gluon/logsumexp_backward/rows", backward_kernel, programs, args, warps, tensors=4)
