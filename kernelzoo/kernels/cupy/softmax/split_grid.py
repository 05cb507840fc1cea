"""Softmax of a row by several blocks of one co-operative launch, which wait for each other's (max, sum) pairs."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, packs, width
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.layout import VECTOR_BYTES, Rows, cdiv
from kernelzoo.registry import register

THREADS = 512
"""Of the one block on each SM."""

BATCH = 4
"""Packs that a thread reads at once past those in registers: those in shared memory come in multiples of it."""

OTHER_BYTES = 2048
"""Shared memory for all else."""


@register("cupy", "softmax", "split_grid")
@planned()
def split_grid(rows: Rows, device: Device, _: None) -> Plan:
    """A row in the registers and the shared memory of several blocks, which meet through device memory.

    One block on each SM, holding 12 packs a thread in registers and up to 28 in shared memory.
    """
    count, sms = packs(rows), device.multiprocessors
    items = 4 if rows.dtype == "float64" else 12  # of 128 registers 48; double's exp takes the others
    most_shared = (device.shared_per_block - OTHER_BYTES) // (THREADS * VECTOR_BYTES) // BATCH * BATCH
    # All SMs on the rows there are; more rows than that in turn, each on as many blocks as hold it.
    chunks = max(1, sms // rows.total, min(sms, cdiv(count, THREADS * (items + most_shared))))
    chunks = min(chunks, max(1, count // THREADS))
    groups = min(rows.total, sms // chunks)
    beyond = cdiv(cdiv(count, chunks), THREADS) - items
    shared_items = min(most_shared, max(0, cdiv(beyond, BATCH) * BATCH))
    step = Step(
        f"split_grid<{c_type(rows)}, {width(rows)}, {items}>",
        groups * chunks,
        THREADS,
        ("partial", "counters", (I32, chunks), (I32, shared_items)),
        shared_items * THREADS * VECTOR_BYTES,
        cooperative=True,
    )
    return Plan(rows, (step,), rows.total * chunks * pair_bytes(rows), rows.total * 8)
