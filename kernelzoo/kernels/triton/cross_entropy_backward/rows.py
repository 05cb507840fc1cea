import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import pack_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.packs import max_and_sum
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def backward_kernel(
    x, labels, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    labels_outer, labels_inner, grad_outer, grad_inner, ignore_index, LOWEST: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    label = tl.load(labels + row_start(row, inner, labels_outer, labels_inner, 1), row < rows, other=0)
    factor = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), row < rows, other=0).to(ACC_DTYPE)
    factor = tl.where((label >= 0) & (label < n), factor, float("nan"))
    top, total = max_and_sum(
        x, x_start, x_n, 0, n, row < rows, LOWEST, float("inf"), ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR
    )
    inverse = 1 / total
    for start in range(0, n, BLOCK):
        here = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        mask = (row < rows) & (here < n)
        tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(ACC_DTYPE)
        share = exponential(tile - top) * inverse
        result = tl.where(label == ignore_index, 0, factor * (share - tl.where(here == label, 1.0, 0.0)))
        tl.store(out + (out_start + here * out_n), result.to(out.dtype.element_ty), mask)


@register("triton", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """One pass finds each row's (max, sum) state. A second pass reads the row again, from cache, and writes."""
    rows, (label, factor) = layouts_of(x, out, labels, grad)
    tile = pack_tile(x, rows)
    strides = (label.outer, label.inner, factor.outer, factor.inner)
    constants = (torch.finfo(wide_dtype(x.dtype)).min, wide_type(x.dtype), *tile.constants)
    args = (x, labels, grad, out, *row_arguments(rows), *strides, ignore_index, *constants)
    return bind_grid("triton/cross_entropy_backward/rows", backward_kernel, tile.programs, args, tile.warps, tensors=4)
