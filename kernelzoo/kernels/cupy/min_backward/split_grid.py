from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, plan_once
from kernelzoo.kernels.cupy.min_backward.fused import SUM_BYTES, pack_batch_bytes, packs_per_batch
from kernelzoo.kernels.cupy.rows import c_type, count_packs, pack_width
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register

THREADS = 512  # per block; each SM has one block
OTHER_BYTES = 4 * KIB  # shared memory for other data


@register("cupy", "min_backward", "split_grid")
@plan_once()
def split_grid(rows: Rows, y: Strides, grad: Strides, device: Device) -> Plan:
    """Several blocks share a row. They keep one bit per element, and exchange counts through device memory."""
    wide, count, sms = pack_width(rows), count_packs(rows), device.multiprocessors
    items, saved_bytes = packs_per_batch(wide), pack_batch_bytes(wide) * THREADS
    most = (device.shared_per_block - OTHER_BYTES) // saved_bytes
    parts = max(1, sms // rows.planned, min(sms, cdiv(count, THREADS * items * (1 + most))))
    parts = min(parts, max(1, count // THREADS))
    saved = min(most, max(0, cdiv(cdiv(cdiv(count, parts), THREADS) - items, items)))
    step = Step(
        f"split_grid<{c_type(rows)}, {wide}, {items}, {items}>",
        min(rows.total, sms // parts) * parts,
        THREADS,
        ("partial", "counters", (I32, parts), (I32, saved)),
        saved * saved_bytes,
        cooperative=True,
    )
    return Plan(rows, (step,), rows.total * parts * SUM_BYTES, rows.total * 8, (y, grad))
