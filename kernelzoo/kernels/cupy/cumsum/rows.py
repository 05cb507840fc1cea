from kernelzoo.kernels.cupy.lanes import FEWEST, aligned_width, choose_whole_warp_width, plan_rows
from kernelzoo.kernels.cupy.launch import Plan, plan_once
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "cumsum", "rows")
@plan_once()
def rows(rows: Rows) -> Plan:
    """A block scans a row tile by tile. Lanes scan a tile in a tree, and add the sum of the tiles before it."""
    wide, few = choose_whole_warp_width(rows.n, aligned_width(rows), 4 * FEWEST)
    return plan_rows(rows, dtypes=(rows.dtype, rows.out_dtype), constants=(wide,), lane_vectors=(few, 1))
