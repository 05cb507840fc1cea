"""Softmax of many short rows per block, side by side in registers: a warp or a part of one takes a row."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, packed, packs, thread_has_row, width
from kernelzoo.kernels.cupy.softmax.held import PACKS_HELD
from kernelzoo.layout import Rows, cdiv, power_of_two
from kernelzoo.registry import register

THREADS = 128


@register("cupy", "softmax", "multi_row_tile")
@planned()
def multi_row_tile(rows: Rows, device: Device, _: None) -> Plan:
    """Many short rows per block, in registers: a warp, a part of a warp, or one thread takes a row."""
    wide, count = width(rows), packs(rows)
    if count > WARP * PACKS_HELD:
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row_tile",
            f"a row of {rows.n} elements doesn't fit in one warp's registers, which hold {WARP * PACKS_HELD * wide}",
        )
    has_edges = wide > 1 and not packed(rows)
    # Of double, four packs to a lane: fewer lanes share the work of a row's merge.
    lanes = min(WARP, power_of_two(cdiv(count, 4) if rows.itemsize == 8 else count))
    if thread_has_row(rows):
        lanes = 1
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, power_of_two(2 * (wide - 1)))
    items = cdiv(count, lanes)
    # Two rows a group of lanes, unless one each is all that the device runs at once or a row is work enough.
    group = 2 if items == 1 and rows.total * lanes > device.multiprocessors * 2048 else 1
    blocks = cdiv(rows.total, THREADS // lanes * group)
    kernel = f"multi_row_tile<{c_type(rows)}, {wide}, {lanes}, {items}, {group}, {int(has_edges)}>"
    return Plan(rows, (Step(kernel, blocks, THREADS),))
