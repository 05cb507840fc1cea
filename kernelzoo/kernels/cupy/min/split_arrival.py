from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, Argument, Plan, Step, plan_once
from kernelzoo.kernels.cupy.min.tiles import ITEMS, THREADS, Knobs
from kernelzoo.kernels.cupy.rows import c_type, count_packs, num_threads, pack_width
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "min", "split_arrival")
@plan_once(Knobs)
def split_arrival(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """Several blocks share a row and store partial minima. The last to finish merges these: one launch."""
    count, blocks = count_packs(rows), knobs.blocks_per_sm * device.multiprocessors
    # One wave of blocks, each with at least one batch of loads.
    chunks = max(1, min(cdiv(count, THREADS * ITEMS), blocks // min(blocks, rows.total)))
    kernel = f"split_arrival<{c_type(rows)}, {pack_width(rows)}, {ITEMS}>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (I32, chunks))
    step = Step(kernel, rows.total * chunks, min(THREADS, num_threads(cdiv(count, chunks), ITEMS)), arguments)
    return Plan(rows, (step,), rows.total * chunks * 8, rows.total * 4)
