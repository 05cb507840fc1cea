"""Short rows of any length, read as one piece of memory: through shared memory, and then a thread to a row."""

from __future__ import annotations

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, bind
from kernelzoo.kernels.cupy.rows import c_type, one_piece
from kernelzoo.launch import Launch
from kernelzoo.layout import VECTOR_BYTES, Rows, cdiv
from kernelzoo.registry import register

ROWS = 128
"""To a block, which has as many threads."""

OTHER_BYTES = 2048
"""Shared memory that a block takes beside what it asks for, the system's included."""


@register("cupy", "min", "rows_deferred_shared")
def rows_deferred_shared(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Short rows side by side are copied to shared memory as one piece, and each thread walks down one."""
    return bind(__file__, plan, None, x, out)


def plan(rows: Rows, device: Device, numbers: None) -> Plan:
    if not one_piece(rows):
        raise UnsupportedProblemError("cupy/min/rows_deferred_shared", "the rows are not one piece of memory")
    shared = ROWS * rows.n * rows.itemsize + VECTOR_BYTES  # the first row may start anywhere in a word
    most = device.shared_per_block - OTHER_BYTES
    if shared > most:
        reason = f"{ROWS} rows take {shared} bytes of shared memory; a block may have {most}"
        raise UnsupportedProblemError("cupy/min/rows_deferred_shared", reason)
    step = Step(f"rows_deferred_shared<{c_type(rows)}>", cdiv(rows.total, ROWS), ROWS, shared_bytes=shared)
    return Plan(rows, (step,))
