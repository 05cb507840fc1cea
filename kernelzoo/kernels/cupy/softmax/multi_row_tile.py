from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, plan_once
from kernelzoo.kernels.cupy.rows import PACKS_HELD, pack_width
from kernelzoo.kernels.cupy.softmax.exact import plan_exact_sums
from kernelzoo.kernels.cupy.tile import plan_tile_step
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "softmax", "multi_row_tile")
@plan_once()
def multi_row_tile(rows: Rows, device: Device) -> Plan:
    """A block processes many short rows in registers. A row has a warp, a part of a warp, or one thread."""
    # In double a lane has four packs if possible: with fewer lanes per row, it costs less to merge them.
    least = 4 if rows.itemsize == 8 else 1
    rows, exact = plan_exact_sums(rows)
    return Plan(
        rows, (plan_tile_step("cupy/softmax/multi_row_tile", rows, device, pack_width(rows), PACKS_HELD, least, exact),)
    )
