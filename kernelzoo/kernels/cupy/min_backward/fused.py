from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import Staging, column_strides, plan_columns, vector
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, packs, require_fit, thread_has_row, threads, width
from kernelzoo.kernels.cupy.tile import tile
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

TILE_PACKS = 8  # most packs per thread of short rows
MOST_ITEMS = {1: 8, 2: 64, 4: 64, 8: 32}  # most packs per thread, by elements per pack: up to eight registers of bits
MOST_ITEMS_NEW = 8  # after Hopper

USUAL_THREADS = 512  # of a block; an SM runs two. Only rows that need them get larger blocks
SUM_BYTES = 8  # of a count


@numbers
class Numbers:
    warp_packs: int = knob(4 * WARP, among=(64, 128, 192, 256), unit="packs", why="of a warp's longest row")


@register("cupy", "min_backward", "fused")
@planned(Numbers)
def fused(rows: Rows, y: Strides, grad: Strides, device: Device, numbers: Numbers) -> Plan:
    """A block takes a row, or many short ones or columns, and keeps one bit per element in registers."""
    row_per_thread = thread_has_row(rows)
    if rows.columns is not None and not row_per_thread:
        wide = vector(rows.columns)
        staging = Staging(batch(wide), batch(wide), batch_bytes(wide))
        return plan_columns(rows.columns, column_strides(rows, y, grad), wide, staging, device, SUM_BYTES)
    wide, count, most = width(rows), packs(rows), most_items(rows, device)
    if row_per_thread or count <= numbers.warp_packs:
        step = tile("cupy/min_backward/fused", rows, device, wide, TILE_PACKS)
        return Plan(rows, (step,), others=(y, grad))
    require_fit("cupy/min_backward/fused", rows, wide, 1024 * most, "the registers of one block")
    items = 2 if count <= 128 else 4 if count <= 256 else 8
    while items < most and count > USUAL_THREADS * items:
        items *= 2
    step = Step(f"fused<{c_type(rows)}, {wide}, {items}>", rows.total, threads(count, items))
    return Plan(rows, (step,), others=(y, grad))


def most_items(rows: Rows, device: Device) -> int:
    """Return the most packs per thread, of 1024. After Hopper they are fewer, since the compiler would spill more."""
    most = MOST_ITEMS[width(rows)]
    return min(most, MOST_ITEMS_NEW) if device.capability >= 100 else most


def batch(vector: int) -> int:
    """Return the packs that a thread reads at once, of columns or of rows that several blocks share."""
    return 4 if vector == 8 else 8


def batch_bytes(vector: int) -> int:
    """Return the bytes of a batch's bits in shared memory."""
    return cdiv(batch(vector) * vector, 32) * 4
