"""A warp, a part of a warp or a single thread to a short row, all of which is loaded before the first is compared."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.min.blocks import ITEMS
from kernelzoo.kernels.cupy.rows import WARP, c_type, packed, packs, require_held, thread_has_row, width
from kernelzoo.layout import Rows, cdiv, power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

THREADS = 128
"""In a block, as the kernel is written."""

MOST_PACKS = WARP * ITEMS
"""Of a row: what the registers of a warp hold."""

MANY_THREADS = 2048
"""On each SM: from here on, the rows are many waves of blocks."""


@numbers
class Numbers:
    group_rows: int = knob(
        2, among=(2, 4), unit="packs", why="in flight to a thread of short rows, where they are many waves of blocks"
    )


@register("cupy", "min", "rows_deferred_lanes")
@planned(Numbers)
def rows_deferred_lanes(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    """A warp, a part of one or a thread per short row, read whole before the lanes' minima meet."""
    taken, wide = packs(rows), width(rows)
    require_held("cupy/min/rows_deferred_lanes", rows, wide, MOST_PACKS, "the registers of one warp")
    has_edges = wide > 1 and not packed(rows)
    lanes = 1 if thread_has_row(rows) else min(WARP, power_of_two(taken))
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, power_of_two(2 * (wide - 1)))
    items = cdiv(taken, lanes)
    if lanes > 1:
        items = power_of_two(items)
    # With two packs in flight, and 64 registers a thread, an SM has 32 kB on its way.
    in_flight = numbers.group_rows if rows.total * lanes > device.multiprocessors * MANY_THREADS else 2
    group_rows = max(1, in_flight // items)
    blocks = cdiv(rows.total, THREADS // lanes * group_rows)
    kernel = f"rows_deferred_lanes<{c_type(rows)}, {wide}, {lanes}, {items}, {group_rows}, {int(has_edges)}>"
    return Plan(rows, (Step(kernel, blocks, THREADS),))
