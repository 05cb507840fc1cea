"""Short rows, side by side in the registers of a block: lanes to a row, packs to a lane, rows to a group of lanes."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, packed, require_held, thread_has_row
from kernelzoo.layout import Rows, cdiv, power_of_two

THREADS = 128  # in a block, as the kernels are written
MANY_THREADS = 2048  # on each SM: from here on, the rows are many waves of blocks


def lanes_of(rows: Rows, count: int, wide: int) -> tuple[int, bool]:
    """Lanes to a row of so many packs, each ``wide`` elements, and whether it has edges, of which a lane takes one."""
    has_edges = wide > 1 and not packed(rows)
    lanes = 1 if thread_has_row(rows) else min(WARP, power_of_two(count))
    return max(lanes, power_of_two(2 * (wide - 1))) if has_edges else lanes, has_edges


def tile_step(kernel: str, rows: Rows, wide: int, lanes: int, items: int, group: int, more: str) -> Step:
    """The step of a kernel of short rows, of which a group of lanes takes so many."""
    instance = f"{kernel}<{c_type(rows)}, {wide}, {lanes}, {items}, {group}, {more}>"
    return Step(instance, cdiv(rows.total, THREADS // lanes * group), THREADS)


def tile(id: str, rows: Rows, device: Device, wide: int, most: int, least: int = 1, more: str = "") -> Step:
    """A row by one warp or less, ``most`` packs a thread, and ``least`` if it can. Raises UnsupportedProblemError."""
    require_held(id, rows, wide, WARP * most, "the registers of one warp")
    count = max(1, rows.n // wide)
    lanes, has_edges = lanes_of(rows, cdiv(count, least), wide)
    items = cdiv(count, lanes)
    # Two rows a group of lanes, unless one each is all that the device runs at once or a row is work enough.
    group = 2 if items == 1 and rows.planned * lanes > device.multiprocessors * MANY_THREADS else 1
    return tile_step("multi_row_tile", rows, wide, lanes, items, group, f"{int(has_edges)}{more}")
