"""Softmax of columns that fill one piece of memory, taken as such: blocks of 512 threads go round their rows, several
where one doesn't have enough."""

import math

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, columns_of
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv
from kernelzoo.registry import register

THREADS = 512

OTHER_BYTES = 10 * 1024
"""Shared memory for all else, of which 8 kB are for pairs."""


def fits(columns: Columns, device: Device) -> bool:
    """Whether the columns are one piece of memory, of few enough rows for a block's shared memory to know all pairs."""
    few = columns.inner * columns.itemsize <= THREADS * VECTOR_BYTES and _slices(columns) <= device.multiprocessors
    return columns.one_piece and columns.aligned and columns.itemsize <= 4 and few


def threads_round(columns: Columns) -> int:
    """Of 512 threads, as many as have packs that hold each row equally often; 0 if that takes more."""
    return THREADS // _around(columns) * _around(columns)


def _around(columns: Columns) -> int:
    """The fewest packs that hold each row equally often."""
    return columns.inner // math.gcd(columns.inner, VECTOR_BYTES // columns.itemsize)


def _slices(columns: Columns) -> int:
    """Blocks that go round the rows together."""
    return cdiv(_around(columns), THREADS)


@register("cupy", "softmax", "columns_flat")
@planned()
def columns_flat(rows: Rows, device: Device, _: None) -> Plan:
    """Columns as one piece of memory, whatever boundaries they keep to, in the shared memory of all SMs."""
    columns = columns_of("cupy/softmax/columns_flat", rows)
    if not fits(columns, device):
        raise UnsupportedProblemError(
            "cupy/softmax/columns_flat", "it takes columns of 2 or 4 bytes that are one aligned piece of memory"
        )
    width = VECTOR_BYTES // columns.itemsize
    around = threads_round(columns) or _around(columns)
    slices = _slices(columns)
    active = cdiv(around, slices)
    packs = columns.n * columns.inner // width
    items = {2: 4, 4: 8}[columns.itemsize]
    parts = max(1, min(device.multiprocessors, packs // (THREADS * items)) // slices)
    blocks = parts * slices
    places = THREADS * width * pair_bytes(columns)
    most = (device.shared_per_block - places - OTHER_BYTES) // (THREADS * VECTOR_BYTES)
    held = max(0, min(most, cdiv(packs, parts * around)))
    step = Step(
        f"columns_flat<{c_type(columns)}, {items}>",
        blocks,
        THREADS,
        ("partial", "counters", (I32, held), (I32, active), (I32, around), (I32, slices)),
        held * THREADS * VECTOR_BYTES + places,
        cooperative=True,
    )
    return Plan(columns, (step,), blocks * columns.inner * pair_bytes(columns), 16)
