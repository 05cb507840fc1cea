"""Plans of gradients whose rows are columns in memory. One or several blocks process a strip, see fused.cuh."""

from typing import NamedTuple

from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.launch import I32, Argument, Plan, Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, split_strips
from kernelzoo.layout import Columns, Rows, Strides, cdiv, next_power_of_two

THREADS = 256  # per block; an SM runs two blocks


class PackPlaces(NamedTuple):
    """How a thread keeps its 16-byte packs: ``items`` in registers, the others in shared memory, batch by batch."""

    items: int
    batch: int  # packs per batch
    batch_bytes: int  # per thread


def column_strides(rows: Rows, *others: Strides) -> tuple[Strides, ...]:
    """Return strides with the columns along the inner axis. If the columns' inner axis has size 1, they swap axes."""
    return others if rows.inner > 1 else tuple(Strides(0, other.n, other.outer, other.phase) for other in others)


def column_vector_width(columns: Columns, *tensors: Strides) -> int:
    """Return the number of adjacent columns per load. It is 1 unless all of ``tensors`` have aligned vectors."""
    whole = columns.vector_elements
    alike = all(
        tensor.inner == 1 and tensor.phase == 0 and tensor.outer % whole == 0 and tensor.n % whole == 0
        for tensor in tensors
    )
    return columns.load_width if alike else 1


def plan_columns(
    columns: Columns, others: tuple[Strides, ...], vector: int, staging: PackPlaces, device: Device, sum_bytes: int
) -> Plan:
    """Plan the fewest blocks that can store a strip of columns, or more if SMs are free. The rest is read again."""
    lanes = min(8 if vector > 1 else WARP, max(2 if vector > 1 else 1, next_power_of_two(cdiv(columns.inner, vector))))
    wide, depths, resident = lanes * vector, THREADS // lanes, 2 * device.multiprocessors
    strips = columns.strip_count(wide)
    room = device.shared_per_block // 2 - 8 * (max(THREADS // WARP * wide, THREADS) + wide) - 2 * KIB
    most = max(0, room // (staging.batch_bytes * THREADS))  # batches per thread in shared memory
    least = cdiv(columns.n, depths * (staging.items + most * staging.batch))
    cut = split_strips(strips, columns.n, least, resident)
    saved = min(most, max(0, cdiv(cdiv(cut.span, depths) - staging.items, staging.batch)))
    kernel = f"columns<{c_type(columns)}, {vector}, {staging.items}, {staging.batch}, {lanes}, {THREADS}>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (I32, cut.parts), (I32, saved))
    blocks, shared = cut.blocks if cut.parts > 1 else strips, saved * staging.batch_bytes * THREADS
    step = Step(kernel, blocks, THREADS, arguments, shared, cooperative=cut.parts > 1)
    together = strips if cut.parts > 1 else 0  # strips with several blocks
    return Plan(columns, (step,), together * cut.parts * wide * sum_bytes, together * 8, others)
