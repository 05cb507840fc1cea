"""The gradient of a minimum of many short rows per block, side by side: a warp or a part of one takes a row."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.rows import tile, width
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register

MOST_ITEMS = 8
"""Packs that a thread reads."""


@register("cupy", "min_backward", "multi_row_tile")
@planned()
def multi_row_tile(rows: Rows, y: Strides, grad: Strides, device: Device, _: None) -> Plan:
    """Many short rows per block: a warp, a part of a warp, or one thread takes a row, read once."""
    step = tile("cupy/min_backward/multi_row_tile", rows, device, width(rows), MOST_ITEMS)
    return Plan(rows, (step,), others=(y, grad))
