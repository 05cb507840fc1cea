from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, plan_once
from kernelzoo.kernels.cupy.min.atomics import TILE_ROWS, count_chunks, plan_atomic_steps
from kernelzoo.kernels.cupy.min.tiles import Knobs
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "min", "atomic_eager")
@plan_once(Knobs)
def atomic_eager(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """Several blocks share the reduced axis. Each sends a row's minimum by an atomic as soon as it is known."""
    chunks = count_chunks(rows, device, knobs)
    groups = max(1, knobs.blocks_per_sm * device.multiprocessors // chunks)
    return plan_atomic_steps("atomic_eager", rows, chunks, min(cdiv(rows.total, TILE_ROWS), groups))
