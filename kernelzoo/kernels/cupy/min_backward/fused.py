from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import PackPlaces, column_strides, column_vector_width, plan_columns
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import WARP, c_type, count_packs, fits_one_thread, num_threads, pack_width, require_fit
from kernelzoo.kernels.cupy.tile import plan_tile_step
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

TILE_PACKS = 8  # packs per thread, at most, of short rows
MOST_ITEMS = {1: 8, 2: 64, 4: 64, 8: 32}  # packs per thread, by elements per pack: the bits take up to 8 registers
MOST_ITEMS_NEW = 8  # packs per thread, at most, after Hopper

USUAL_THREADS = 512  # per block; an SM runs two. Longer rows get larger blocks
SUM_BYTES = 8  # per count


@form_knobs
class Knobs:
    warp_packs: int = knob(4 * WARP, among=(64, 128, 192, 256), unit="packs", why="of a warp's longest row")


@register("cupy", "min_backward", "fused")
@plan_once(Knobs)
def fused(rows: Rows, y: Strides, grad: Strides, device: Device, knobs: Knobs) -> Plan:
    """A block reads a row, or many short rows or columns, once. It keeps one bit per element in registers."""
    row_per_thread = fits_one_thread(rows)
    if rows.as_columns is not None and not row_per_thread:
        wide = column_vector_width(rows.as_columns)
        staging = PackPlaces(packs_per_batch(wide), packs_per_batch(wide), pack_batch_bytes(wide))
        return plan_columns(rows.as_columns, column_strides(rows, y, grad), wide, staging, device, SUM_BYTES)
    wide, count, most = pack_width(rows), count_packs(rows), max_packs_per_thread(rows, device)
    if row_per_thread or count <= knobs.warp_packs:
        step = plan_tile_step("cupy/min_backward/fused", rows, device, wide, TILE_PACKS)
        return Plan(rows, (step,), others=(y, grad))
    require_fit("cupy/min_backward/fused", rows, wide, 1024 * most, "the registers of one block")
    items = 2 if count <= 128 else 4 if count <= 256 else 8
    while items < most and count > USUAL_THREADS * items:
        items *= 2
    step = Step(f"fused<{c_type(rows)}, {wide}, {items}>", rows.total, num_threads(count, items))
    return Plan(rows, (step,), others=(y, grad))


def max_packs_per_thread(rows: Rows, device: Device) -> int:
    """Return the most packs per thread, in a block of 1024 threads: fewer after Hopper, to avoid spills."""
    most = MOST_ITEMS[pack_width(rows)]
    return min(most, MOST_ITEMS_NEW) if device.capability >= 100 else most


def packs_per_batch(vector: int) -> int:
    """Return the number of packs that a thread loads at once, from columns or from rows that blocks share."""
    return 4 if vector == 8 else 8


def pack_batch_bytes(vector: int) -> int:
    """Return the bytes of shared memory per thread for a batch of packs: one bit per element."""
    return cdiv(packs_per_batch(vector) * vector, 32) * 4
