from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import Holding, by_columns, plan_columns, vector
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, packs, require_held, thread_has_row, threads, width
from kernelzoo.kernels.cupy.tile import tile
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

TILE_PACKS = {8: 8, 4: 8, 2: 6}  # of each input to a thread of short rows at most, by an element's bytes
PACKS_HELD = 4  # packs of each input that a thread of a block's row has at most: 32 registers, and as many for the rest
PACKS_HELD_NEW = 2  # of half precision for newer devices than Hopper's, for which the compiler would spill more


@numbers
class Numbers:
    warp_packs: int = knob(4 * WARP, among=(64, 96, 128, 192), unit="packs", why="of a warp's longest row")


@register("cupy", "softmax_backward", "fused")
@planned(Numbers)
def fused(rows: Rows, y: Strides, device: Device, numbers: Numbers) -> Plan:
    """One block per row, or many short ones or columns to it, in registers: two reads and a write."""
    alone = thread_has_row(rows)
    if rows.columns is not None and not alone:
        others = by_columns(rows, y)
        wide = vector(rows.columns, *others)
        return plan_columns(rows.columns, others, wide, _held(rows, wide), device, max(4, rows.itemsize))
    wide, count, most = width(rows, y), packs(rows, y), packs_held(rows, device)
    if alone or count <= numbers.warp_packs:
        step = tile("cupy/softmax_backward/fused", rows, device, wide, TILE_PACKS[rows.itemsize])
        return Plan(rows, (step,), others=(y,))
    require_held("cupy/softmax_backward/fused", rows, wide, 1024 * most, "the registers of one block")
    items = 2 if count <= 256 else most
    step = Step(f"fused<{c_type(rows)}, {wide}, {items}>", rows.total, threads(count, items))
    return Plan(rows, (step,), others=(y,))


def packs_held(rows: Rows, device: Device) -> int:
    """Packs of each input that a thread has at most; 1024 threads have the longest row."""
    return PACKS_HELD_NEW if rows.itemsize == 2 and device.capability >= 100 else PACKS_HELD


def _held(rows: Rows, vector: int) -> Holding:
    """Packs of columns in registers and of a batch in shared memory; there single elements are as wide as the sums."""
    items, batch = (4, 2 if rows.itemsize == 8 else 4) if vector > 1 else (8, 4 if rows.itemsize == 8 else 8)
    return Holding(items, batch, 2 * batch * (VECTOR_BYTES if vector > 1 else max(4, rows.itemsize)))
