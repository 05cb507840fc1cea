from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import PACKS_HELD, c_type, count_packs, num_threads, pack_width, require_fit
from kernelzoo.layout import Rows
from kernelzoo.registry import register

MOST_PACKS = 512 * PACKS_HELD  # per row, at most: two rows take 128 registers per thread, the most for 512 threads


@register("cupy", "softmax", "persistent")
@plan_once()
def persistent(rows: Rows) -> Plan:
    """The launch has as many blocks as can run at once. Each loops over rows, and prefetches its next row."""
    count = count_packs(rows)
    require_fit("cupy/softmax/persistent", rows, pack_width(rows), MOST_PACKS, "half the registers of one block")
    # 4 packs per thread are enough loads in flight. With fewer packs, a short row still gets four warps.
    items = 1 if count <= 128 else 2 if count <= 256 else 4 if count <= 512 * 4 else 8
    kernel = f"persistent<{c_type(rows)}, {pack_width(rows)}, {items}>"
    return Plan(rows, (Step(kernel, rows.total, num_threads(count, items), resident=True),))
