"""Softmax of the shortest rows, copied as one piece through shared memory: a few whole rows to a thread."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy import thread_rows
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.kernels.cupy.thread_rows import MOST_ELEMENTS, THREADS
from kernelzoo.layout import Rows
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers


@numbers
class Numbers:
    warp_bytes: int = knob(
        4608,
        among=(4608, 9216, 18432),
        unit="bytes",
        why="of a warp's rows: enough on their way for memory, small enough that warps are at different work",
    )


def fits(rows: Rows) -> bool:
    """Whether threads can take whole rows."""
    return thread_rows.fits(rows) and rows.n <= MOST_ELEMENTS and thread_rows.word_bytes(rows, 0) is not None


@register("cupy", "softmax", "multi_row_thread")
@planned(Numbers)
def multi_row_thread(rows: Rows, device: Device, table: Numbers) -> Plan:
    """A thread takes as many rows as fill whole words."""
    word = thread_rows.word_bytes(rows, table.warp_bytes) if fits(rows) else None
    if word is None:
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row_thread",
            f"it takes rows of up to {MOST_ELEMENTS} elements of 2 or 4 bytes, but no multiple of 32 bytes, that are "
            "one piece of memory on a 16-byte boundary",
        )
    blocks, shared = thread_rows.blocks_and_bytes(rows, word)
    kernel = f"multi_row_thread<{c_type(rows)}, {rows.n}, {word}, {THREADS}>"
    return Plan(rows, (Step(kernel, blocks, THREADS, (), shared),))
