import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.packs import block_columns, locate_tile_rows, make_pack_launch_arguments, max_and_sum
from kernelzoo.kernels.gluon.tiles import lowest_finite
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def backward_kernel(
    x, labels, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    labels_outer, labels_inner, grad_outer, grad_inner, ignore_index, LOWEST: gl.constexpr, ACC_DTYPE: gl.constexpr,
    ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, own = locate_tile_rows(gl.program_id(0), rows, inner, ROWS, LAYOUT)
    cols = block_columns(LANES, PACK, VECTOR, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None, None]
    out_rows = out + dev.row_start(group, place, out_outer, out_inner, MULTIPLE)[:, None, None]
    label = dev.load_per_row(labels, group, place, labels_outer, labels_inner, own, gl.int64)[:, None, None]
    factor = dev.load_per_row(grad, group, place, grad_outer, grad_inner, own, ACC_DTYPE)[:, None, None]
    own = own[:, None, None]
    factor = gl.where((label >= 0) & (label < n), factor, float("nan"))
    top, total = max_and_sum(x_rows, x_n, 0, n, own, LOWEST, float("inf"), ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT)
    top, inverse = top[:, None, None], 1 / total[:, None, None]
    for start in range(0, n, LANES * PACK):
        here = start + cols
        mask = own & (here < n)
        tile = gl.load(x_rows + here * x_n, mask, other=0).to(ACC_DTYPE)
        share = exponential(tile - top) * inverse
        result = gl.where(label == ignore_index, 0.0, factor * (share - gl.where(here == label, 1.0, 0.0)))
        gl.store(out_rows + here * out_n, result.to(out.dtype.element_ty), mask)


@register("gluon", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """One pass finds each row's (max, sum) state. A second pass reads the row again, from cache, and writes."""
    rows, (label, factor) = layouts_of(x, out, labels, grad)
    programs, warps, *tile = make_pack_launch_arguments(x, rows)
    strides = (label.outer, label.inner, factor.outer, factor.inner)
    constants = (lowest_finite(wide_dtype(x.dtype)), wide_type(x.dtype), *tile)
    args = (x, labels, grad, out, *row_arguments(rows), *strides, ignore_index, *constants)
    return bind_grid("gluon/cross_entropy_backward/rows", backward_kernel, programs, args, warps, tensors=4)
