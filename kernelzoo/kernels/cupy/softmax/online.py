from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import c_type, count_packs, num_threads, pack_width
from kernelzoo.layout import Rows
from kernelzoo.registry import register

MOST_THREADS = 512


@register("cupy", "softmax", "online")
@plan_once()
def online(rows: Rows) -> Plan:
    """The first pass keeps a running (max, sum) pair, at any row length. The second pass reads again and writes."""
    items = 2 if rows.dtype == "float64" else 4  # in double, exp needs the registers of two packs
    kernel = f"online<{c_type(rows)}, {pack_width(rows)}, {items}>"
    return Plan(rows, (Step(kernel, rows.total, min(MOST_THREADS, num_threads(count_packs(rows), items))),))
