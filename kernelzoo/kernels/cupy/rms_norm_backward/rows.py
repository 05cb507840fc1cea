from kernelzoo.device import Device
from kernelzoo.kernels.cupy.lanes import plan_turns
from kernelzoo.kernels.cupy.launch import F64, Plan, planned
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "rms_norm_backward", "rows")
@planned()
def rows(rows: Rows, weight: Strides, grad: Strides, dx: Strides, device: Device, eps: float) -> Plan:
    """Blocks take rows in turn, in registers if those hold them, and keep sums for the weight, which others add up."""
    return plan_turns(rows, weight, grad, dx, device=device, sums=(4,), scalars=((F64, eps),))
