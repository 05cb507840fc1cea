from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import PACKS_HELD, c_type, packs, require_fit, threads, width
from kernelzoo.layout import Rows
from kernelzoo.registry import register

MOST_PACKS = 512 * PACKS_HELD  # of the longest row: two rows take 128 registers of a thread, as 512 threads can have


@register("cupy", "softmax", "persistent")
@planned()
def persistent(rows: Rows) -> Plan:
    """A grid as large as the device runs at once; each block loops over rows and loads the next one ahead."""
    count = packs(rows)
    require_fit("cupy/softmax/persistent", rows, width(rows), MOST_PACKS, "half the registers of one block")
    # 4 packs a thread keep enough loads in flight; fewer only where a block would have less than four warps.
    items = 1 if count <= 128 else 2 if count <= 256 else 4 if count <= 512 * 4 else 8
    kernel = f"persistent<{c_type(rows)}, {width(rows)}, {items}>"
    return Plan(rows, (Step(kernel, rows.total, threads(count, items), resident=True),))
