"""Plans of kernels with several short rows per block, in registers. A row has a group of up to 32 lanes."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, require_fit, rows_are_aligned, thread_has_row
from kernelzoo.layout import Rows, cdiv, power_of_two

THREADS = 128  # per block; the kernels' source has this number too
MANY_THREADS = 2048  # per SM: with more threads than this, rows take many waves of blocks


def choose_row_lanes(rows: Rows, count: int, wide: int) -> tuple[int, bool]:
    """Return (lanes per row, whether rows have edges) for ``count`` packs. A lane has at most one edge element."""
    has_edges = wide > 1 and not rows_are_aligned(rows)
    lanes = 1 if thread_has_row(rows) else min(WARP, power_of_two(count))
    return max(lanes, power_of_two(2 * (wide - 1))) if has_edges else lanes, has_edges


def tile_step(kernel: str, rows: Rows, wide: int, lanes: int, items: int, group: int, more: str) -> Step:
    """Return the launch of a kernel for short rows. A group of lanes reads ``group`` rows at once."""
    instance = f"{kernel}<{c_type(rows)}, {wide}, {lanes}, {items}, {group}, {more}>"
    return Step(instance, cdiv(rows.total, THREADS // lanes * group), THREADS)


def plan_tile_step(id: str, rows: Rows, device: Device, wide: int, most: int, least: int = 1, more: str = "") -> Step:
    """Return the launch of a kernel in which at most a warp has a row. A lane has at most ``most`` packs, and at least
    ``least`` if a row has as many. Raises UnsupportedProblemError if a row doesn't fit in a warp's registers."""
    require_fit(id, rows, wide, WARP * most, "the registers of one warp")
    count = max(1, rows.n // wide)
    lanes, has_edges = choose_row_lanes(rows, cdiv(count, least), wide)
    items = cdiv(count, lanes)
    # Two rows per group of lanes, if a lane has one pack per row. But one if the device can run all rows at once.
    group = 2 if items == 1 and rows.planned * lanes > device.multiprocessors * MANY_THREADS else 1
    return tile_step("multi_row_tile", rows, wide, lanes, items, group, f"{int(has_edges)}{more}")
