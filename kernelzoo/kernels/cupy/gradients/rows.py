"""Rows of several tensors: packs, threads, and the forms whose plans the gradients share."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy import rows as one
from kernelzoo.kernels.cupy.launch import Step
from kernelzoo.kernels.cupy.rows import WARP, c_type, packed, thread_has_row
from kernelzoo.layout import Rows, Strides, cdiv, power_of_two

TILE_THREADS = 128
"""Of a block of short rows."""


def width(rows: Rows, *along: Strides) -> int:
    """Elements of a row that a thread reads at once: a pack of 16 bytes where they lie side by side in all tensors that
    have elements along it, else one."""
    return one.width(rows) if all(tensor.n == 1 for tensor in along) else 1


def packs(rows: Rows, wide: int) -> int:
    """Packs of a row, of so many elements; one for a row too short to have any."""
    return max(1, rows.n // wide)


def threads(packs: int, items: int) -> int:
    """Threads, in whole warps, that take ``items`` packs each."""
    return cdiv(packs, items * WARP) * WARP


def tile(id: str, rows: Rows, device: Device, wide: int, most: int) -> Step:
    """Short rows, side by side in registers: a warp, a part of a warp, or one thread takes a row, of which a thread
    holds ``most`` packs at most. Raises UnsupportedProblemError."""
    count = packs(rows, wide)
    if count > WARP * most:
        raise UnsupportedProblemError(
            id, f"a row of {rows.n} elements doesn't fit in one warp's registers, which hold {WARP * most * wide}"
        )
    has_edges = wide > 1 and not packed(rows)
    lanes = 1 if thread_has_row(rows) else min(WARP, power_of_two(count))
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, power_of_two(2 * (wide - 1)))
    items = cdiv(count, lanes)
    # Two rows a group of lanes, unless one each is all that the device runs at once or a row is work enough.
    group = 2 if items == 1 and rows.total * lanes > device.multiprocessors * 2048 else 1
    blocks = cdiv(rows.total, TILE_THREADS // lanes * group)
    kernel = f"multi_row_tile<{c_type(rows)}, {wide}, {lanes}, {items}, {group}, {int(has_edges)}>"
    return Step(kernel, blocks, TILE_THREADS)


def chunks(rows: Rows, device: Device, count: int, threads: int, held: int) -> int:
    """Blocks to a row of so many packs, each of so many threads that hold ``held`` packs: all SMs on the rows there
    are; more rows than that in turn, each on as many blocks as hold it."""
    sms = device.multiprocessors
    wanted = max(1, sms // rows.total, min(sms, cdiv(count, threads * held)))
    return min(wanted, max(1, count // threads))
