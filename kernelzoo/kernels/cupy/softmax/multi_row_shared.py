"""Softmax of short rows that are one piece of memory, copied as such through shared memory: a thread or a few a row."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, one_piece
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register

THREADS = 128

LANE_ELEMENTS = 40
"""Elements of a row to a thread, at most, but for the last lanes."""

MOST_ELEMENTS, MOST_DOUBLES = 264, 16
"""Of a row: what eight threads have registers for; double's exp leaves fewer."""


def fits(rows: Rows) -> bool:
    """Whether the rows are one piece of memory, and short enough."""
    return one_piece(rows) and rows.n <= (MOST_DOUBLES if rows.dtype == "float64" else MOST_ELEMENTS)


@register("cupy", "softmax", "multi_row_shared")
@planned()
def multi_row_shared(rows: Rows, device: Device, _: None) -> Plan:
    """Short rows that follow each other without a gap, 128 or fewer at a time through shared memory as one piece."""
    if not fits(rows):
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row_shared",
            f"it takes rows of up to {MOST_ELEMENTS} elements, {MOST_DOUBLES} of float64, that are one piece of memory",
        )
    n = rows.n
    words = n // 2 + 1 if rows.itemsize == 2 else n  # half precisions come in twos, wherever they begin
    lanes = 1 if rows.itemsize == 8 else next(c for c in (1, 2, 4, 8, 16, 32) if n <= LANE_ELEMENTS * c)
    each = cdiv(words, WARP) * WARP // lanes if lanes > 1 else words
    each += each % 2  # a kernel for every second length
    block_rows = THREADS // lanes
    kernel = f"multi_row_shared<{c_type(rows)}, {lanes}, {each}>"
    shared = block_rows * n * rows.itemsize + 16
    return Plan(rows, (Step(kernel, cdiv(rows.total, block_rows), THREADS, (), shared),))
