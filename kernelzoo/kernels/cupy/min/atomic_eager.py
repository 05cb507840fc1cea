from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.kernels.cupy.min.atomics import TILE_ROWS, chunks_of, plan_of
from kernelzoo.kernels.cupy.min.tiles import Numbers
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "min", "atomic_eager")
@planned(Numbers)
def atomic_eager(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    """Several blocks share the reduced axis. Each sends a row's minimum by an atomic as soon as it is known."""
    chunks = chunks_of(rows, device, numbers)
    groups = max(1, numbers.blocks_per_sm * device.multiprocessors // chunks)
    return plan_of("atomic_eager", rows, chunks, min(cdiv(rows.total, TILE_ROWS), groups))
