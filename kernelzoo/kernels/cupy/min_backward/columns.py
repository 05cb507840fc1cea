"""The gradient of a minimum of columns, rows that lie side by side: a block keeps a bit to an element as far as it can,
and reads the rest again."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import columns_of, plan_columns, vector, whole
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.kernels.cupy.min_backward.held import held
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "min_backward", "columns")
@planned()
def columns(rows: Rows, y: Strides, grad: Strides, device: Device, _: None) -> Plan:
    """Neighbouring columns by a block whose lanes run along them; a bit to an element stays on chip."""
    columns, others = columns_of("cupy/min_backward/columns", rows, y, grad)
    wide = vector(columns)
    return plan_columns(columns, others, whole(columns, wide, held(wide), device))
