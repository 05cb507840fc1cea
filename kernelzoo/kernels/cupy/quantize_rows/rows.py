from kernelzoo.kernels.cupy.lanes import plan_multi_pass
from kernelzoo.kernels.cupy.launch import Plan, plan_once
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "quantize_rows", "rows")
@plan_once()
def rows(rows: Rows, values: Strides) -> Plan:
    """Lanes find a row's absolute maximum. Then they write the row in 8 bits, from registers if it fits there."""
    return plan_multi_pass(rows, values, dtypes=(rows.dtype,))
