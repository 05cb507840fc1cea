"""Plans of kernels with several short rows per block, in registers. A row has a group of up to 32 lanes."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, fits_one_thread, require_fit, rows_are_aligned
from kernelzoo.layout import Rows, cdiv, next_power_of_two

THREADS = 128  # per block; the kernels' source has this number too
MANY_THREADS = 2048  # per SM: with more threads than this, rows take many waves of blocks


def choose_row_lanes(rows: Rows, count: int, wide: int) -> tuple[int, bool]:
    """Return (lanes per row, whether rows have edges) for ``count`` packs. A lane has at most one edge element."""
    has_edges = wide > 1 and not rows_are_aligned(rows)
    lanes = 1 if fits_one_thread(rows) else min(WARP, next_power_of_two(count))
    return max(lanes, next_power_of_two(2 * (wide - 1))) if has_edges else lanes, has_edges


def make_tile_step(kernel: str, rows: Rows, wide: int, lanes: int, packs: int, group_rows: int, more_args: str) -> Step:
    """Return a launch step of a kernel for short rows. A group of ``lanes`` threads reads ``group_rows`` at once."""
    instance = f"{kernel}<{c_type(rows)}, {wide}, {lanes}, {packs}, {group_rows}, {more_args}>"
    return Step(instance, cdiv(rows.total, THREADS // lanes * group_rows), THREADS)


def plan_tile_step(
    id: str, rows: Rows, device: Device, wide: int, most_packs: int, least_packs: int = 1, more_args: str = ""
) -> Step:
    """Return a launch step in which at most a warp has a row. A lane has at most ``most_packs`` packs, and at least
    ``least_packs`` if a row has as many. Raises UnsupportedProblemError if a row doesn't fit in a warp's registers."""
    require_fit(id, rows, wide, WARP * most_packs, "the registers of one warp")
    count = max(1, rows.n // wide)
    lanes, has_edges = choose_row_lanes(rows, cdiv(count, least_packs), wide)
    items = cdiv(count, lanes)
    # Two rows per group of lanes, if a lane has one pack per row. But one if the device can run all rows at once.
    group = 2 if items == 1 and rows.planned * lanes > device.multiprocessors * MANY_THREADS else 1
    return make_tile_step("multi_row_tile", rows, wide, lanes, items, group, f"{int(has_edges)}{more_args}")
