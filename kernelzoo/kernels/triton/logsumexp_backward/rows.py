import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.kernels.shared.row_tiles import choose_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def backward_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    of_row = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), row < rows, other=0).to(ACC_DTYPE)
    factor = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), row < rows, other=0).to(ACC_DTYPE)
    for start in range(0, n, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        mask = (row < rows) & (here < n)
        tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
        result = factor * exponential(tile - of_row)
        tl.store(out + (out_start + here * out_n), result.to(out.dtype.element_ty), mask)


@register("triton", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """The gradient is exp(x - y) * grad, with y and grad of the element's row. It takes one read and one write."""
    rows, (ys, grads) = layouts_of(x, out, y, grad)
    tile = choose_tile(x, rows)
    strides = (ys.outer, ys.inner, grads.outer, grads.inner)
    args = (x, y, grad, out, *row_arguments(rows), *strides, wide_type(x.dtype), tile.rows, tile.block)
    return bind_grid("triton/logsumexp_backward/rows", backward_kernel, tile.programs, args, tile.warps, tensors=4)
