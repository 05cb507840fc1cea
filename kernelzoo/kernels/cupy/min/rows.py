from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.min.tiles import ITEMS, THREADS
from kernelzoo.kernels.cupy.rows import c_type, count_packs, num_threads, pack_width
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "min", "rows")
@plan_once()
def rows(rows: Rows) -> Plan:
    """One block per row. It reduces each tile of the row to a scalar before it reads the next one."""
    kernel = f"rows<{c_type(rows)}, {pack_width(rows)}, {ITEMS}>"
    return Plan(rows, (Step(kernel, rows.total, min(THREADS, num_threads(count_packs(rows), ITEMS))),))
