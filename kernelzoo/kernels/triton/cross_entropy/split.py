import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import plan_parts
from kernelzoo.kernels.triton.cross_entropy.rows import compute_loss
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.logsumexp.split import launch_states, load_merged_state
from kernelzoo.kernels.triton.long_rows import row_to_merge
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@triton.jit
def merge_kernel(
    x, labels, loss, states, rows, n, parts, inner, x_outer, x_n, x_inner, labels_outer, labels_inner,
    out_outer, out_inner, ignore_index, LOWEST: tl.constexpr, ACC_DTYPE: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    row = row_to_merge()
    top, total = load_merged_state(states, row, rows, parts, LOWEST, PARTS)
    label = tl.load(labels + row_start(row, inner, labels_outer, labels_inner, 1))
    x += row_start(row, inner, x_outer, x_inner, 1)
    result = compute_loss(x, x_n, n, label, True, top, total, ignore_index, ACC_DTYPE)
    tl.store(loss + row_start(row, inner, out_outer, out_inner, 1), result.to(loss.dtype.element_ty))


@register("triton", "cross_entropy", "split")
def split(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """Each program reduces part of a row as ``rows`` does. A second launch merges the states, one program per row."""
    rows, (label,) = layouts_of(x, loss, labels)
    plan, id = plan_parts(x, rows), "triton/cross_entropy/split"
    states, first = launch_states(id, x, loss, rows, plan, float("inf"))
    place = (rows.total, rows.n, plan.parts, rows.inner, rows.x_outer, rows.x_n, rows.x_inner)
    strides = (label.outer, label.inner, rows.out_outer, rows.out_inner, ignore_index)
    constants = (torch.finfo(wide_dtype(x.dtype)).min, wide_type(x.dtype), plan.padded_parts)
    args = (x, labels, loss, states, *place, *strides, *constants)
    return chain_launches(first, bind_grid(id, merge_kernel, rows.total, args, 1, tensors=3))
