"""The gradient of a softmax of many short rows per block, side by side in registers: a warp or a part of one a row."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.rows import tile, width
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register

MOST_ITEMS = {8: 8, 4: 8, 2: 6}
"""Packs of each input that a thread has at most, by the bytes of an element: widened, half precisions take more."""


@register("cupy", "softmax_backward", "multi_row_tile")
@planned()
def multi_row_tile(rows: Rows, y: Strides, device: Device, _: None) -> Plan:
    """Many short rows per block, in registers: a warp, a part of a warp, or one thread takes a row."""
    id = "cupy/softmax_backward/multi_row_tile"
    return Plan(rows, (tile(id, rows, device, width(rows, y), MOST_ITEMS[rows.itemsize]),), others=(y,))
