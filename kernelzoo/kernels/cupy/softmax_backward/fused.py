from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients.columns import PackPlaces, column_strides, column_vector_width, plan_columns
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import WARP, c_type, count_packs, fits_one_thread, num_threads, pack_width, require_fit
from kernelzoo.kernels.cupy.tile import plan_tile_step
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

TILE_PACKS = {8: 8, 4: 8, 2: 6}  # packs of each input per thread, at most, of short rows, by element size
PACKS_HELD = 4  # packs of each input per thread, at most, of longer rows: 32 of 64 registers
PACKS_HELD_NEW = 2  # in half precision after Hopper, because the compiler would spill more


@form_knobs
class Knobs:
    warp_packs: int = knob(4 * WARP, among=(64, 96, 128, 192), unit="packs", why="of a warp's longest row")


@register("cupy", "softmax_backward", "fused")
@plan_once(Knobs)
def fused(rows: Rows, y: Strides, device: Device, knobs: Knobs) -> Plan:
    """A block keeps a row, or many short rows or columns, in registers: two reads and one write of the matrix."""
    row_per_thread = fits_one_thread(rows)
    if rows.as_columns is not None and not row_per_thread:
        others = column_strides(rows, y)
        wide = column_vector_width(rows.as_columns, *others)
        return plan_columns(rows.as_columns, others, wide, _column_staging(rows, wide), device, max(4, rows.itemsize))
    wide, count, most = pack_width(rows, y), count_packs(rows, y), max_packs_per_thread(rows, device)
    if row_per_thread or count <= knobs.warp_packs:
        step = plan_tile_step("cupy/softmax_backward/fused", rows, device, wide, TILE_PACKS[rows.itemsize])
        return Plan(rows, (step,), others=(y,))
    require_fit("cupy/softmax_backward/fused", rows, wide, 1024 * most, "the registers of one block")
    items = 2 if count <= 256 else most
    step = Step(f"fused<{c_type(rows)}, {wide}, {items}>", rows.total, num_threads(count, items))
    return Plan(rows, (step,), others=(y,))


def max_packs_per_thread(rows: Rows, device: Device) -> int:
    """Return the most packs of each input per thread, in a block of 1024 threads."""
    return PACKS_HELD_NEW if rows.itemsize == 2 and device.capability >= 100 else PACKS_HELD


def _column_staging(rows: Rows, vector: int) -> PackPlaces:
    """Return how a thread stores its packs of columns. In shared memory a single element takes at least 4 bytes."""
    items, batch = (4, 2 if rows.itemsize == 8 else 4) if vector > 1 else (8, 4 if rows.itemsize == 8 else 8)
    return PackPlaces(items, batch, 2 * batch * (VECTOR_BYTES if vector > 1 else max(4, rows.itemsize)))
