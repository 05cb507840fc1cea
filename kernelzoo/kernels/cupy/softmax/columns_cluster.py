"""Softmax of columns in the shared memory of a cluster of blocks, of which an SM has several; read once."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, columns_of
from kernelzoo.kernels.cupy.softmax.meeting import BLOCK_BYTES, clusters
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv, power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

MOST_BYTES = 114 * 1024
"""Of a block: where an SM would have one of larger ones, reading twice is as fast."""

THREAD_BYTES = 256
"""Of the elements of a thread: 16 packs, or in half as many bytes twice as many elements."""

SHORT = 64
"""Elements of a block's part of a column, from which more blocks a cluster don't pay off."""


@numbers
class Numbers:
    column_blocks: int = knob(
        3, among=(2, 3, 4), unit="blocks", why="of a cluster of columns whose elements an SM's shared memory holds"
    )


@register("cupy", "softmax", "columns_cluster")
@planned(Numbers)
def columns_cluster(rows: Rows, device: Device, table: Numbers) -> Plan:
    """Every element in the shared memory of a cluster; pairs meet through distributed shared memory."""
    columns = columns_of("cupy/softmax/columns_cluster", rows)
    step = fitting(columns, device, table)
    if step is None:
        raise UnsupportedProblemError(
            "cupy/softmax/columns_cluster",
            f"a cluster doesn't hold columns of {columns.n} elements, or the device has none, or fewer than four bytes "
            "of neighbouring columns can be copied at once",
        )
    return Plan(columns, (step,))


def fitting(columns: Columns, device: Device, table: Numbers) -> Step | None:
    """The step that takes the columns, None if it can't.

    Of float64 at odd widths too, an element at a time; for the smaller ones that is done better (columns_ragged).
    """
    width, n, double = columns.vector, columns.n, columns.dtype == "float64"
    if device.cluster_blocks == 1 or (width == 1 and not (double and columns.side_by_side)):
        return None
    # 128 bytes of neighbouring rows, or 64; of packs of double, whose exponential takes longer than reading, 64.
    widths = (16, 8) if width == 1 else (4,) if double else (8, 4)
    few = table.column_blocks * (2 if double and width > 1 else 1)
    cell, pair = (VECTOR_BYTES if width > 1 else columns.itemsize), pair_bytes(columns)
    for blocks in (few, 3, 2, 1):  # on an SM
        most_threads = (128 if blocks > 4 else 256) if double or blocks > 2 else 512
        for lanes in widths:
            lanes, fits = min(lanes, power_of_two(cdiv(columns.inner, width))), None
            wide, tiles = lanes * width, columns.strips(lanes * width)
            for parts in (1, *clusters(device)):
                share = cdiv(n, parts)
                threads = min(most_threads, max(128, power_of_two(cdiv(share * lanes * cell, THREAD_BYTES))))
                items = cdiv(share, threads // lanes)
                shared = items * threads * cell + (threads // max(lanes, WARP) + parts + 1) * wide * pair
                if blocks * (shared + BLOCK_BYTES) > device.shared_per_block + 1024 or shared > MOST_BYTES:
                    continue
                arguments = ((I32, lanes), (I32, items))
                kernel = f"columns_cluster<{c_type(columns)}, {width}>"
                fits = Step(kernel, tiles * parts, threads, arguments, shared, cluster=parts)
                if tiles * parts >= device.multiprocessors or share <= SHORT:
                    break
            if fits is not None:
                return fits
    return None
