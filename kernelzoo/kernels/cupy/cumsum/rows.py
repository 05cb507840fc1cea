from kernelzoo.kernels.cupy.lanes import FEWEST, aligned_width, fill_whole_warps, plan_rows
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "cumsum", "rows")
@planned()
def rows(rows: Rows) -> Plan:
    """A block scans a row tile by tile. Lanes scan a tile in a tree, and add the sum of the tiles before it."""
    wide, few = fill_whole_warps(rows.n, aligned_width(rows), 4 * FEWEST)
    return plan_rows(rows, dtypes=(rows.dtype, rows.out_dtype), numbers=(wide,), few=few)
