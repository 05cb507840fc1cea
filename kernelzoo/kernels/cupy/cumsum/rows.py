from kernelzoo.kernels.cupy.lanes import FEW, aligned_width, plan_rows, whole_warps
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "cumsum", "rows")
@planned()
def rows(rows: Rows) -> Plan:
    """Blocks of a row one after the other: a tree within each, and the sums of those before it in order."""
    wide, few = whole_warps(rows.n, aligned_width(rows), 4 * FEW)
    return plan_rows(rows, dtypes=(rows.dtype, rows.out_dtype), numbers=(wide,), few=few)
