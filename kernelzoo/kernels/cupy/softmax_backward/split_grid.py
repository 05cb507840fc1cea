"""The gradient of a softmax of a row, or of columns, by several blocks of one co-operative launch, which wait for each
other's sums."""

from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.gradients.columns import columns_of, plan_split, vector
from kernelzoo.kernels.cupy.gradients.rows import chunks, packs, width
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.kernels.cupy.softmax_backward.held import held
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv
from kernelzoo.registry import register

THREADS = 512
"""Of the one block on each SM."""

BATCH = 4
"""Packs that a thread reads at once past those in registers: those in shared memory come in multiples of it."""

OTHER_BYTES = 4 * KIB
"""Shared memory for all else."""


@register("cupy", "softmax_backward", "split_grid")
@planned()
def split_grid(rows: Rows, y: Strides, device: Device, _: None) -> Plan:
    """A row, or a strip of columns, on the chip of several blocks, which meet in device memory."""
    sum_bytes = max(4, rows.itemsize)
    if rows.columns is not None:
        columns, others = columns_of("cupy/softmax_backward/split_grid", rows, y)
        wide = vector(columns, *others)
        return plan_split(columns, others, wide, held(columns, wide), device, sum_bytes)
    wide = width(rows, y)
    count, items = packs(rows, wide), 4 if rows.itemsize == 8 else 8
    batch_bytes = 2 * BATCH * (VECTOR_BYTES if wide > 1 else sum_bytes) * THREADS
    most = (device.shared_per_block - OTHER_BYTES) // batch_bytes
    parts = chunks(rows, device, count, THREADS, items + most * BATCH)
    saved = min(most, max(0, cdiv(cdiv(cdiv(count, parts), THREADS) - items, BATCH)))
    step = Step(
        f"split_grid<{c_type(rows)}, {wide}, {items}, {BATCH}>",
        min(rows.total, device.multiprocessors // parts) * parts,
        THREADS,
        ("partial", "counters", (I32, parts), (I32, saved)),
        saved * batch_bytes,
        cooperative=True,
    )
    return Plan(rows, (step,), rows.total * parts * sum_bytes, rows.total * 8, (y,))
