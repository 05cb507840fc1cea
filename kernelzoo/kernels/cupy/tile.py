"""Short rows, side by side in the registers of a block: the step of a kernel ``multi_row_tile``."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, packed, thread_has_row
from kernelzoo.layout import Rows, cdiv, power_of_two

THREADS = 128


def tile(id: str, rows: Rows, device: Device, wide: int, most: int, least: int = 1) -> Step:
    """A warp, a part of a warp, or one thread takes a row, of whose packs, of so many elements, a thread holds ``most``
    at most, and ``least`` where there are so many. Raises UnsupportedProblemError."""
    count = max(1, rows.n // wide)
    if count > WARP * most:
        raise UnsupportedProblemError(
            id, f"a row of {rows.n} elements doesn't fit in one warp's registers, which hold {WARP * most * wide}"
        )
    has_edges = wide > 1 and not packed(rows)
    lanes = 1 if thread_has_row(rows) else min(WARP, power_of_two(cdiv(count, least)))
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, power_of_two(2 * (wide - 1)))
    items = cdiv(count, lanes)
    # Two rows a group of lanes, unless one each is all that the device runs at once or a row is work enough.
    group = 2 if items == 1 and rows.total * lanes > device.multiprocessors * 2048 else 1
    kernel = f"multi_row_tile<{c_type(rows)}, {wide}, {lanes}, {items}, {group}, {int(has_edges)}>"
    return Step(kernel, cdiv(rows.total, THREADS // lanes * group), THREADS)
