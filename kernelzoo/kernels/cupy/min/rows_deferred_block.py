from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.min.tiles import ITEMS
from kernelzoo.kernels.cupy.rows import c_type, count_packs, num_threads, pack_width
from kernelzoo.layout import Rows
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

LONE_THREADS = 1024  # per block, at most, if each row has an SM of its own


@form_knobs
class Knobs:
    row_threads: int = knob(512, among=(256, 512, 1024), unit="threads", why="to a row, of several on an SM")


@register("cupy", "min", "rows_deferred_block")
@plan_once(Knobs)
def rows_deferred_block(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """One block per row. Each thread keeps a running minimum, and the block merges these once, at the end."""
    most = LONE_THREADS if rows.total <= device.multiprocessors else knobs.row_threads
    kernel = f"rows_deferred_block<{c_type(rows)}, {pack_width(rows)}, {ITEMS}>"
    return Plan(rows, (Step(kernel, rows.total, min(most, num_threads(count_packs(rows), ITEMS))),))
