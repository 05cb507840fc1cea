"""The gradient of a softmax of columns, rows that lie side by side: a block holds what it can, and reads the rest
again."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import columns_of, plan_columns, vector, whole
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.kernels.cupy.softmax_backward.held import held
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "softmax_backward", "columns")
@planned()
def columns(rows: Rows, y: Strides, device: Device, _: None) -> Plan:
    """Neighbouring columns by a block whose lanes run along them, on chip as far as they fit."""
    columns, others = columns_of("cupy/softmax_backward/columns", rows, y)
    wide = vector(columns, *others)
    return plan_columns(columns, others, whole(columns, wide, held(columns, wide), device))
