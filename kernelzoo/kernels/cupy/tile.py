"""Short rows, side by side in the registers of a block: the step of a kernel ``multi_row_tile``."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, packed, require_held, thread_has_row
from kernelzoo.layout import Rows, cdiv, power_of_two

THREADS = 128


def tile(id: str, rows: Rows, device: Device, wide: int, most: int, least: int = 1) -> Step:
    """A warp, a part of a warp, or one thread takes a row, of whose packs, of so many elements, a thread holds ``most``
    at most, and ``least`` where there are so many. Raises UnsupportedProblemError."""
    count = max(1, rows.n // wide)
    require_held(id, rows, wide, WARP * most, "the registers of one warp")
    has_edges = wide > 1 and not packed(rows)
    lanes = 1 if thread_has_row(rows) else min(WARP, power_of_two(cdiv(count, least)))
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, power_of_two(2 * (wide - 1)))
    items = cdiv(count, lanes)
    # Two rows a group of lanes, unless one each is all that the device runs at once or a row is work enough.
    group = 2 if items == 1 and rows.total * lanes > device.multiprocessors * 2048 else 1
    kernel = f"multi_row_tile<{c_type(rows)}, {wide}, {lanes}, {items}, {group}, {int(has_edges)}>"
    return Step(kernel, cdiv(rows.total, THREADS // lanes * group), THREADS)
