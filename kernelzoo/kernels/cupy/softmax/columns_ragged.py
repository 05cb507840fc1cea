"""Softmax of columns of any width in the shared memory of a cluster, 32 rows to a block; read once."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, columns_of
from kernelzoo.kernels.cupy.softmax.meeting import BLOCK_BYTES, clusters
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

MOST_WARPS = 12

THREAD_BYTES = 84
"""Of the elements that a thread copies."""

SHORT = 64
"""Elements of a block's part of a column, from which more blocks a cluster don't pay off."""


@numbers
class Numbers:
    ragged_blocks: int = knob(
        4,
        among=(2, 3, 4, 6),
        unit="blocks",
        why="of a cluster of columns at odd widths that an SM's shared memory holds",
    )


@register("cupy", "softmax", "columns_ragged")
@planned(Numbers)
def columns_ragged(rows: Rows, device: Device, table: Numbers) -> Plan:
    """Columns that begin anywhere in a 16-byte word, whose words are copied whole to the shared memory of a cluster."""
    columns = columns_of("cupy/softmax/columns_ragged", rows)
    step = fitting(columns, device, table)
    if step is None:
        raise UnsupportedProblemError(
            "cupy/softmax/columns_ragged",
            f"a cluster doesn't hold columns of {columns.n} elements, or the device has none, or the columns aren't "
            "side by side, of 2 or 4 bytes an element",
        )
    return Plan(columns, (step,))


def fitting(columns: Columns, device: Device, table: Numbers) -> Step | None:
    """The step that takes the columns, None if it can't."""
    if device.cluster_blocks == 1 or columns.itemsize > 4 or not columns.side_by_side:
        return None
    tiles, pitch = columns.strips(WARP), WARP * columns.itemsize + VECTOR_BYTES
    for blocks in (table.ragged_blocks, 4, 3, 2):  # on an SM
        fits = None
        for parts in (1, *clusters(device)):
            share = cdiv(columns.n, parts)
            warps = min(MOST_WARPS, max(2, cdiv(share * pitch, THREAD_BYTES * WARP)))
            items = cdiv(share, warps)
            shared = warps * items * pitch + (warps + parts + 1) * WARP * pair_bytes(columns)
            if blocks * (shared + BLOCK_BYTES) > device.shared_per_block + 1024:
                continue
            kernel = f"columns_ragged<{c_type(columns)}>"
            fits = Step(kernel, tiles * parts, warps * WARP, ((I32, items),), shared, cluster=parts)
            if tiles * parts >= device.multiprocessors or share <= SHORT:
                break
        if fits is not None:
            return fits
    return None
