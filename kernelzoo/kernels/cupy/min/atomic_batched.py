from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, plan_once
from kernelzoo.kernels.cupy.min.atomics import TILE_ROWS, count_chunks, plan_atomic_steps
from kernelzoo.kernels.cupy.min.tiles import Knobs
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register

BATCH_TILES = 128  # tiles of 8 rows per batch: the minima take at most 8 kB of shared memory
MAX_GRID_Y = 65535


@register("cupy", "min", "atomic_batched")
@plan_once(Knobs)
def atomic_batched(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """Several blocks share the reduced axis. Each collects its rows' minima and then sends them by atomics."""
    chunks, tiles = count_chunks(rows, device, knobs), cdiv(rows.total, TILE_ROWS)
    # Groups of rows fill the device. A group has at most the tiles whose minima a block can store. It has at least two
    # tiles if every SM still gets a block.
    groups = max(1, knobs.blocks_per_sm * device.multiprocessors // chunks)
    least = 2 if tiles * chunks >= 2 * device.multiprocessors else 1
    share = min(BATCH_TILES, max(least, cdiv(tiles, groups)))
    return plan_atomic_steps("atomic_batched", rows, chunks, min(cdiv(tiles, share), MAX_GRID_Y))
