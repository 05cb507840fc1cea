import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.packs import locate_tile_rows, make_pack_launch_arguments, max_and_sum
from kernelzoo.kernels.gluon.tiles import lowest_finite
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def compute_loss(x_rows, x_n, n, label, in_rows, top, total, ignore_index, ACC_DTYPE: gl.constexpr):
    """Return each row's loss from its label and its (max, sum) state. x_rows: pointers to the rows."""
    picked = gl.load(x_rows + label * x_n, in_rows & (label >= 0) & (label < n), other=float("nan")).to(ACC_DTYPE)
    return gl.where(label == ignore_index, 0.0, gl.log(total) - (picked - top))


@gluon.jit
def cross_entropy_kernel(
    x, labels, loss, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    labels_outer, labels_inner, ignore_index, LOWEST: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr,
    LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = locate_tile_rows(gl.program_id(0), rows, inner, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)
    top, total = max_and_sum(
        x_rows[:, None, None], x_n, 0, n, there[:, None, None], LOWEST, float("inf"),
        ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT,
    )  # fmt: skip
    label = dev.load_per_row(labels, group, place, labels_outer, labels_inner, there, gl.int64)
    result = compute_loss(x_rows, x_n, n, label, there, top, total, ignore_index, ACC_DTYPE).to(loss.dtype.element_ty)
    gl.store(loss + dev.row_start(group, place, out_outer, out_inner, 1), result, there)


@register("gluon", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass keeps a running (max, sum) state in each thread. Then the element of each row's label is read."""
    rows, (label,) = layouts_of(x, loss, labels)
    programs, warps, *tile = make_pack_launch_arguments(x, rows)
    constants = (lowest_finite(wide_dtype(x.dtype)), wide_type(x.dtype), *tile)
    args = (x, labels, loss, *row_arguments(rows), label.outer, label.inner, ignore_index, *constants)
    return bind_grid("gluon/cross_entropy/rows", cross_entropy_kernel, programs, args, warps, tensors=3)
