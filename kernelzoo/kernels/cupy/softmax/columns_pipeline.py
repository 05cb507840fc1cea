"""Softmax of long columns in strips of 128 bytes: blocks read one strip, exchange another's pairs and write a third."""

from __future__ import annotations

import ctypes

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Argument, Plan, Step, bind
from kernelzoo.kernels.cupy.rows import WARP, c_type, columns_of
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.launch import Launch
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv
from kernelzoo.registry import register

WARPS, ITEMS = 12, 4
"""Warps of a block that compute, and packs of a lane to a tile."""

LANES = 8
"""Across a strip, a pack each."""

RING_BYTES, PAIR_BYTES = 192 * 1024, 35 * 1024
"""Shared memory: of the tiles, and what the pairs of columns take beside them."""

MOST_PARTS = 24
"""Blocks to a column, whose pairs a lane receives twelve at a time."""


@register("cupy", "softmax", "columns_pipeline")
def columns_pipeline(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Strips of neighbouring columns: reading one, exchanging another's pairs and writing a third go on at once."""
    return bind(__file__, plan, None, x, out)


def blocks_of(columns: Columns, device: Device) -> tuple[int, int] | None:
    """Strips, and blocks to each; None if it can't take the columns."""
    if device.capability < 90 or device.shared_per_block < RING_BYTES + PAIR_BYTES:
        return None
    if columns.itemsize > 4 or columns.vector == 1:
        return None
    strips = columns.strips(LANES * columns.vector)
    # Half of the ring to a strip, or more where that makes it one block's and strips are many.
    parts = cdiv(columns.n, 1024 if strips >= 4 * device.multiprocessors else 768)
    return (strips, parts) if parts <= min(device.multiprocessors, MOST_PARTS) else None


def plan(rows: Rows, device: Device, table: None) -> Plan:
    columns = columns_of("cupy/softmax/columns_pipeline", rows)
    found = blocks_of(columns, device)
    if found is None:
        raise UnsupportedProblemError(
            "cupy/softmax/columns_pipeline",
            f"it takes packs of neighbouring columns, of 2 or 4 bytes an element, on sm_90 and sm_100, of so many "
            f"elements as {MOST_PARTS} blocks hold",
        )
    (strips, parts), wide = found, LANES * columns.vector
    slots = RING_BYTES // (WARPS * ITEMS * WARP * VECTOR_BYTES)
    share = cdiv(columns.n, parts * WARPS)
    groups = min(strips, device.multiprocessors // parts)
    counters: Argument = "counters" if parts > 1 else (ctypes.c_int64, 0)
    arguments = (counters, (ctypes.c_int32, parts), (ctypes.c_int32, share), (ctypes.c_int32, slots))
    step = Step(
        f"columns_pipeline<{c_type(columns)}, {WARPS}, {ITEMS}>",
        groups * parts,
        (WARPS + 1) * WARP + wide,
        arguments,
        WARPS * slots * ITEMS * WARP * VECTOR_BYTES,
        cooperative=parts > 1,
    )
    packets = groups * parts * 6 * wide if parts > 1 else 0
    return Plan(columns, (step,), counter_bytes=packets * 2 * pair_bytes(columns))
