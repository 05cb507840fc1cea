import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import pack_tile
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.packs import max_and_sum
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def compute_loss(x, x_n, n, label, in_rows, top, total, ignore_index, ACC_DTYPE: tl.constexpr):
    """Return each row's loss from its label and its (max, sum) state. x: pointers to the rows' first elements."""
    inside = in_rows & (label >= 0) & (label < n)
    picked = tl.load(x + label * x_n, inside, other=float("nan")).to(ACC_DTYPE)
    return tl.where(label == ignore_index, 0, tl.log(total) - (picked - top))


@triton.jit
def cross_entropy_kernel(
    x, labels, loss, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    labels_outer, labels_inner, ignore_index, LOWEST: tl.constexpr, ACC_DTYPE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    top, total = max_and_sum(
        x, x_start, x_n, 0, n, row < rows, LOWEST, float("inf"), ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR
    )
    label = tl.load(labels + row_start(row, inner, labels_outer, labels_inner, 1), row < rows, other=0)
    result = compute_loss(x + x_start, x_n, n, label, row < rows, top, total, ignore_index, ACC_DTYPE)
    tl.store(loss + row_start(row, inner, out_outer, out_inner, 1), result.to(loss.dtype.element_ty), row < rows)


@register("triton", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass keeps a running (max, sum) state in each thread. Then the element of each row's label is read."""
    rows, (label,) = layouts_of(x, loss, labels)
    tile = pack_tile(x, rows)
    constants = (torch.finfo(wide_dtype(x.dtype)).min, wide_type(x.dtype), *tile.constants)
    args = (x, labels, loss, *row_arguments(rows), label.outer, label.inner, ignore_index, *constants)
    return bind_grid("triton/cross_entropy/rows", cross_entropy_kernel, tile.programs, args, tile.warps, tensors=3)
