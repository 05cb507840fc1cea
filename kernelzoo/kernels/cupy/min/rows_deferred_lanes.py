from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, plan_once
from kernelzoo.kernels.cupy.min.tiles import ITEMS
from kernelzoo.kernels.cupy.rows import WARP, count_packs, pack_width, require_fit
from kernelzoo.kernels.cupy.tile import MANY_THREADS, choose_row_lanes, make_tile_step
from kernelzoo.layout import Rows, cdiv, next_power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

MOST_PACKS = WARP * ITEMS  # per row, at most, to fit in a warp's registers


@form_knobs
class Knobs:
    group_rows: int = knob(2, among=(2, 4), unit="packs", why="in flight a thread, of many rows")


@register("cupy", "min", "rows_deferred_lanes")
@plan_once(Knobs)
def rows_deferred_lanes(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """A warp, a part of a warp or a thread loads a complete short row. Then its lanes merge their minima."""
    count, wide = count_packs(rows), pack_width(rows)
    require_fit("cupy/min/rows_deferred_lanes", rows, wide, MOST_PACKS, "the registers of one warp")
    lanes, has_edges = choose_row_lanes(rows, count, wide)
    items = cdiv(count, lanes) if lanes == 1 else next_power_of_two(cdiv(count, lanes))
    # With two packs in flight per thread, at 64 registers per thread, an SM has 32 kB in flight.
    in_flight = knobs.group_rows if rows.total * lanes > device.multiprocessors * MANY_THREADS else 2
    group = max(1, in_flight // items)
    return Plan(rows, (make_tile_step("rows_deferred_lanes", rows, wide, lanes, items, group, str(int(has_edges))),))
