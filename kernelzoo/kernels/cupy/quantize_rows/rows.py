from kernelzoo.kernels.cupy.lanes import plan_held
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register


@register("cupy", "quantize_rows", "rows")
@planned()
def rows(rows: Rows, values: Strides) -> Plan:
    """The absolute maximum in each lane; then a row is written in 8 bits, from registers if they hold it."""
    return plan_held(rows, values, dtypes=(rows.dtype,))
