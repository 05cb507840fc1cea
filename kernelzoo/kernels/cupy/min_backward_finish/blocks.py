"""A minimum's gradient by counts of minima that are known: a block to a share of a row, one read, one write."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.passes import finish
from kernelzoo.kernels.cupy.gradients.rows import width
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "min_backward_finish", "blocks")
@planned()
def blocks(rows: Rows, y: Strides, grad: Strides, count: Strides, device: Device, _: None) -> Plan:
    """A block to a share of a row: one read, one write."""
    return Plan(rows, (finish(rows, width(rows), 4),), others=(y, grad, count), wide=(3,))
