from kernelzoo.device import Device
from kernelzoo.kernels.cupy.lanes import plan_with_row_sums
from kernelzoo.kernels.cupy.launch import F64, Plan, plan_once
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "layer_norm_backward", "rows")
@plan_once()
def rows(rows: Rows, weight: Strides, grad: Strides, dx: Strides, dweight: Strides, device: Device, eps: float) -> Plan:
    """Blocks loop over rows, in three passes per row. Two more launches add up the blocks' sums for weight and bias."""
    return plan_with_row_sums(rows, weight, grad, dx, dweight, device=device, sums=(4, 5), scalars=((F64, eps),))
