from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, planned
from kernelzoo.kernels.cupy.min.atomics import TILE_ROWS, chunks_of, plan_of
from kernelzoo.kernels.cupy.min.tiles import Numbers
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register

BATCH_TILES = 128  # row tiles of 8 rows whose minima a block keeps in shared memory: at most 8 kB
MAX_GRID_Y = 65535


@register("cupy", "min", "atomic_batched")
@planned(Numbers)
def atomic_batched(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    """As atomic_eager, but a block keeps the minima of all its rows and sends them out together."""
    chunks, tiles = chunks_of(rows, device, numbers), cdiv(rows.total, TILE_ROWS)
    # Row groups fill the device, with no more tiles each than a block can keep the minima of. A batch has at least two
    # tiles, if every SM still gets a block.
    groups = max(1, numbers.blocks_per_sm * device.multiprocessors // chunks)
    least = 2 if tiles * chunks >= 2 * device.multiprocessors else 1
    share = min(BATCH_TILES, max(least, cdiv(tiles, groups)))
    return plan_of("atomic_batched", rows, chunks, min(cdiv(tiles, share), MAX_GRID_Y))
