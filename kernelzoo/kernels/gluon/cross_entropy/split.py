import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.cross_entropy.rows import compute_loss
from kernelzoo.kernels.gluon.logsumexp.split import launch_states, load_merged_state
from kernelzoo.kernels.gluon.long_rows import result_offset
from kernelzoo.kernels.gluon.tiles import lowest_finite
from kernelzoo.kernels.shared.jit import bind_grid, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import plan_parts
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def merge_kernel(
    x, labels, loss, states, rows, n, parts, inner, x_outer, x_n, x_inner, labels_outer, labels_inner,
    out_outer, out_inner, ignore_index, LOWEST: gl.constexpr, ACC_DTYPE: gl.constexpr, PARTS: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    top, total = load_merged_state(states, rows, parts, LOWEST, PARTS)
    label = gl.load(labels + result_offset(inner, labels_outer, labels_inner))
    x += result_offset(inner, x_outer, x_inner)
    result = compute_loss(x, x_n, n, label, label == label, top, total, ignore_index, ACC_DTYPE)
    gl.store(loss + result_offset(inner, out_outer, out_inner), result.to(loss.dtype.element_ty))


@register("gluon", "cross_entropy", "split")
def split(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """Each program reduces part of a row as ``rows`` does. A second launch merges the states, one program per row."""
    rows, (label,) = layouts_of(x, loss, labels)
    plan, id = plan_parts(x, rows), "gluon/cross_entropy/split"
    states, first = launch_states(id, x, loss, rows, plan, float("inf"))
    place = (rows.total, rows.n, plan.parts, rows.inner, rows.x_outer, rows.x_n, rows.x_inner)
    strides = (label.outer, label.inner, rows.out_outer, rows.out_inner, ignore_index)
    constants = (lowest_finite(wide_dtype(x.dtype)), wide_type(x.dtype), plan.padded_parts)
    args = (x, labels, loss, states, *place, *strides, *constants)
    return chain_launches(first, bind_grid(id, merge_kernel, rows.total, args, 1, tensors=3))
