"""Softmax of short rows, copied as one piece through shared memory: a few lanes to a row, or to two of odd length."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy import thread_rows
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.kernels.cupy.thread_rows import NARROWEST, THREADS
from kernelzoo.layout import Rows
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

LANES = (2, 4, 8)
"""To a row. The rows of a warp of more would not end on a 16-byte boundary."""

MOST_ELEMENTS = 264
"""Of a row: those of multi_row_shared."""


@numbers
class Numbers:
    lane_elements: int = knob(
        40, among=(20, 24, 40), unit="elements", why="of a row to a lane, in whose registers they stay"
    )


def fits(rows: Rows) -> bool:
    """Whether lanes can share rows as words."""
    return thread_rows.fits(rows) and rows.n <= MOST_ELEMENTS


@register("cupy", "softmax", "multi_row_lanes")
@planned(Numbers)
def multi_row_lanes(rows: Rows, device: Device, table: Numbers) -> Plan:
    """A few lanes take a short row, or two that fill whole words."""
    if not fits(rows):
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row_lanes",
            f"it takes rows of up to {MOST_ELEMENTS} elements of 2 or 4 bytes that are one piece of memory on a "
            "16-byte boundary",
        )
    lanes = next((c for c in LANES if rows.n <= table.lane_elements * c), LANES[-1])
    blocks, shared = thread_rows.blocks_and_bytes(rows, NARROWEST, lanes)
    kernel = f"multi_row_lanes<{c_type(rows)}, {rows.n}, {lanes}, {THREADS}>"
    return Plan(rows, (Step(kernel, blocks, THREADS, (), shared),))
