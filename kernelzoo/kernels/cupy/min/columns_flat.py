"""Few, long columns that fill one piece of memory: read pack by pack, whatever row a place of a pack belongs to."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.min.blocks import ITEMS, Numbers
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.layout import Columns, Rows
from kernelzoo.registry import register

THREADS = 512
"""In a block, and the most rows: each needs a thread."""


def fits(columns: Columns | None) -> bool:
    """Whether columns fill one piece of memory that starts with a 16-byte word, and are few enough."""
    return columns is not None and columns.one_piece and columns.aligned and columns.inner <= THREADS


@register("cupy", "min", "columns_flat")
@planned(Numbers)
def columns_flat(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    """Blocks read columns as one piece of memory, by 16 bytes; the last to arrive reduces their minima."""
    columns = rows.columns
    if columns is None or not fits(columns):
        reason = f"the rows are not up to {THREADS} columns of one piece of memory that starts with a 16-byte word"
        raise UnsupportedProblemError("cupy/min/columns_flat", reason)
    most = numbers.column_blocks * device.multiprocessors
    blocks = min(most, max(1, columns.n * columns.inner // (THREADS * ITEMS)))
    step = Step(f"columns_flat<{c_type(columns)}, {ITEMS}>", blocks, THREADS, ("partial", "counters"))
    return Plan(columns, (step,), blocks * columns.inner * 8, 4)
