from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import Holding, by_columns, plan_columns, vector
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, packs, require_held, thread_has_row, threads, width
from kernelzoo.kernels.cupy.tile import tile
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

TILE_PACKS = 8  # packs that a thread of short rows reads
MOST_ITEMS = {1: 8, 2: 64, 4: 64, 8: 32}  # packs of a thread at most, by elements of one: eight registers of bits
MOST_ITEMS_NEW = 8

USUAL_THREADS = 512  # of a block, of which an SM has two: larger ones are for rows alone that need them
SUM_BYTES = 8  # of a count


@numbers
class Numbers:
    warp_packs: int = knob(4 * WARP, among=(64, 128, 192, 256), unit="packs", why="of a warp's longest row")


@register("cupy", "min_backward", "fused")
@planned(Numbers)
def fused(rows: Rows, y: Strides, grad: Strides, device: Device, numbers: Numbers) -> Plan:
    """One block per row, or many short ones or columns to it, of whose elements a bit each stays in registers."""
    alone = thread_has_row(rows)
    if rows.columns is not None and not alone:
        wide = vector(rows.columns)
        held = Holding(batch(wide), batch(wide), batch_bytes(wide))
        return plan_columns(rows.columns, by_columns(rows, y, grad), wide, held, device, SUM_BYTES)
    wide, count, most = width(rows), packs(rows), most_items(rows, device)
    if alone or count <= numbers.warp_packs:
        step = tile("cupy/min_backward/fused", rows, device, wide, TILE_PACKS)
        return Plan(rows, (step,), others=(y, grad))
    require_held("cupy/min_backward/fused", rows, wide, 1024 * most, "the registers of one block")
    items = 2 if count <= 128 else 4 if count <= 256 else 8
    while items < most and count > USUAL_THREADS * items:
        items *= 2
    step = Step(f"fused<{c_type(rows)}, {wide}, {items}>", rows.total, threads(count, items))
    return Plan(rows, (step,), others=(y, grad))


def most_items(rows: Rows, device: Device) -> int:
    """Packs of a thread at most, of 1024 threads; for newer devices than Hopper's the compiler would spill more."""
    most = MOST_ITEMS[width(rows)]
    return min(most, MOST_ITEMS_NEW) if device.capability >= 100 else most


def batch(vector: int) -> int:
    """Packs that a thread reads at once, of rows by several blocks, or columns."""
    return 4 if vector == 8 else 8


def batch_bytes(vector: int) -> int:
    """What the bits of a batch take in shared memory."""
    return cdiv(batch(vector) * vector, 32) * 4
