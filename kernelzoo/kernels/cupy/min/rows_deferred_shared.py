"""Short rows of any length, read as one piece of memory: through shared memory, and then a thread to a row."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, one_piece
from kernelzoo.layout import VECTOR_BYTES, Rows, cdiv
from kernelzoo.registry import register

ROWS = 128
"""To a block, which has as many threads."""

OTHER_BYTES = 2048
"""Shared memory that a block takes beside what it asks for, the system's included."""


@register("cupy", "min", "rows_deferred_shared")
@planned()
def rows_deferred_shared(rows: Rows, device: Device, _: None) -> Plan:
    """Short rows side by side are copied to shared memory as one piece, and each thread walks down one."""
    if not one_piece(rows):
        raise UnsupportedProblemError("cupy/min/rows_deferred_shared", "the rows are not one piece of memory")
    shared = ROWS * rows.n * rows.itemsize + VECTOR_BYTES  # the first row may start anywhere in a word
    most = device.shared_per_block - OTHER_BYTES
    if shared > most:
        reason = f"{ROWS} rows take {shared} bytes of shared memory; a block may have {most}"
        raise UnsupportedProblemError("cupy/min/rows_deferred_shared", reason)
    step = Step(f"rows_deferred_shared<{c_type(rows)}>", cdiv(rows.total, ROWS), ROWS, shared_bytes=shared)
    return Plan(rows, (step,))
