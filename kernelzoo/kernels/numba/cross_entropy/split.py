"""Several blocks to a row: each leaves the (max, sum) state of its part; a second launch reads the label's logit."""

from functools import cache

from kernelzoo.device import Device
from kernelzoo.kernels.numba.cross_entropy.rows import row_loss
from kernelzoo.kernels.numba.device_functions import machine
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.lanes import own_row
from kernelzoo.kernels.numba.launch import BindView, planned
from kernelzoo.kernels.numba.logsumexp.split import parts_kernel
from kernelzoo.kernels.numba.logsumexp.state import merged_state
from kernelzoo.kernels.numba.parts import TOGETHER, cut, in_parts
from kernelzoo.kernels.numba.row import row_coords
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import View
from kernelzoo.registry import register


@cache
def together_kernel(dtype: str, ignore_index: int) -> Source:
    merge, find, (_, store) = merged_state(dtype), own_row(TOGETHER), machine.element_functions(dtype)
    loss_of, pointees = row_loss(dtype, ignore_index), (dtype, "int64", str(WIDE[dtype]), dtype)

    def cross_entropy_together(
        x, labels, states, loss, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        labels_outer, labels_step, labels_inner, parts, span,
    ):  # fmt: skip
        lane, _, r, length = find(rows, parts)
        outer, place = row_coords(r, inner)
        source, label = outer * x_outer + place * x_inner, outer * labels_outer + place * labels_inner
        top, total = merge(states, r * parts, length, lane)
        if lane == 0 and r < rows:
            store(loss, outer * out_outer + place * out_inner, loss_of(x, source, x_step, labels, label, n, top, total))

    return Source(cross_entropy_together, pointees, TOGETHER.threads, (dtype, ignore_index), inputs=2)


@register("numba", "cross_entropy", "split")
@planned()
def split(v: View, device: Device, _: None, ignore_index: int) -> BindView:
    """Several blocks to a row, as for its logsumexp; the second launch reads the label's logit, too."""
    parts = cut(v, device)
    first, second = parts_kernel(v.dtype, parts.tiling, v.out_dtype), together_kernel(v.dtype, ignore_index)
    return in_parts("numba/cross_entropy/split", parts, first, second, v, device, each=2)
