"""The gradient of a minimum of a row, or of columns, by several blocks of one co-operative launch, which wait for each
other's counts."""

from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.gradients.columns import columns_of, plan_split, vector
from kernelzoo.kernels.cupy.gradients.rows import chunks, packs, width
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.min_backward.held import batch, batch_bytes, held
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register

THREADS = 512
"""Of the one block on each SM."""

COUNT_BYTES = 8

OTHER_BYTES = 4 * KIB
"""Shared memory for all else."""


@register("cupy", "min_backward", "split_grid")
@planned()
def split_grid(rows: Rows, y: Strides, grad: Strides, device: Device, _: None) -> Plan:
    """A row, or a strip of columns, by several blocks, which keep a bit to an element and meet in device memory."""
    if rows.columns is not None:
        columns, others = columns_of("cupy/min_backward/split_grid", rows, y, grad)
        wide = vector(columns)
        return plan_split(columns, others, wide, held(wide), device, COUNT_BYTES)
    wide = width(rows)
    count, items = packs(rows, wide), batch(wide)
    bytes_saved = batch_bytes(wide) * THREADS
    most = (device.shared_per_block - OTHER_BYTES) // bytes_saved
    parts = chunks(rows, device, count, THREADS, items * (1 + most))
    saved = min(most, max(0, cdiv(cdiv(cdiv(count, parts), THREADS) - items, items)))
    step = Step(
        f"split_grid<{c_type(rows)}, {wide}, {items}, {items}>",
        min(rows.total, device.multiprocessors // parts) * parts,
        THREADS,
        ("partial", "counters", (I32, parts), (I32, saved)),
        saved * bytes_saved,
        cooperative=True,
    )
    return Plan(rows, (step,), rows.total * parts * COUNT_BYTES, rows.total * 8, (y, grad))
