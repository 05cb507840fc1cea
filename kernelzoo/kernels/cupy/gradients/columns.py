"""Strips of neighbouring columns, which the lanes of a block run along, or those of several blocks: see fused.cuh."""

from typing import NamedTuple

from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.launch import I32, Argument, Plan, Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, split_strips
from kernelzoo.layout import Columns, Rows, Strides, cdiv, power_of_two

THREADS = 256  # of a block, of which an SM has two


class Holding(NamedTuple):
    """What a thread holds: packs in registers, packs of a batch in shared memory, and bytes that such a batch takes."""

    items: int
    batch: int
    batch_bytes: int


def by_columns(rows: Rows, *others: Strides) -> tuple[Strides, ...]:
    """Where the other tensors lie, by the columns that rows are."""
    return others if rows.inner > 1 else tuple(Strides(0, other.n, other.outer, other.phase) for other in others)


def vector(columns: Columns, *along: Strides) -> int:
    """Neighbouring columns that can be moved at once: all of a vector of 16 bytes in every tensor that has columns."""
    whole = columns.whole_vector
    alike = all(
        tensor.inner == 1 and tensor.phase == 0 and tensor.outer % whole == 0 and tensor.n % whole == 0
        for tensor in along
    )
    return columns.vector if alike else 1


def plan_columns(
    columns: Columns, others: tuple[Strides, ...], vector: int, held: Holding, device: Device, sum_bytes: int
) -> Plan:
    """As few blocks to a strip as hold it, more where there is room for them; what they don't hold is read again."""
    lanes = min(8 if vector > 1 else WARP, max(2 if vector > 1 else 1, power_of_two(cdiv(columns.inner, vector))))
    wide, depths, resident = lanes * vector, THREADS // lanes, 2 * device.multiprocessors
    strips = columns.strips(wide)
    room = device.shared_per_block // 2 - 8 * (max(THREADS // WARP * wide, THREADS) + wide) - 2 * KIB
    most = max(0, room // (held.batch_bytes * THREADS))  # batches of a thread in shared memory
    least = cdiv(columns.n, depths * (held.items + most * held.batch))
    cut = split_strips(strips, columns.n, least, resident)
    saved = min(most, max(0, cdiv(cdiv(cut.span, depths) - held.items, held.batch)))
    kernel = f"columns<{c_type(columns)}, {vector}, {held.items}, {held.batch}, {lanes}, {THREADS}>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (I32, cut.parts), (I32, saved))
    blocks, shared = cut.blocks if cut.parts > 1 else strips, saved * held.batch_bytes * THREADS
    step = Step(kernel, blocks, THREADS, arguments, shared, cooperative=cut.parts > 1)
    together = strips if cut.parts > 1 else 0  # strips that blocks share
    return Plan(columns, (step,), together * cut.parts * wide * sum_bytes, together * 8, others)
