from kernelzoo.device import Device
from kernelzoo.kernels.cupy.lanes import plan_turns
from kernelzoo.kernels.cupy.launch import F64, Plan, planned
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "layer_norm_backward", "rows")
@planned()
def rows(rows: Rows, weight: Strides, grad: Strides, dx: Strides, dweight: Strides, device: Device, eps: float) -> Plan:
    """Blocks take rows in turn, in three passes each, and keep sums for weight and bias, which others add up."""
    return plan_turns(rows, weight, grad, dx, dweight, device=device, sums=(4, 5), scalars=((F64, eps),))
