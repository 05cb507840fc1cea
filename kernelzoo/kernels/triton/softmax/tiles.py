"""Launch numbers of tiles of several rows that programs hold on chip: what several forms ask."""

from kernelzoo.device import Device
from kernelzoo.kernels.triton.softmax.fused import ON_CHIP_BYTES, tile_columns, wide_bytes
from kernelzoo.layout import Rows, power_of_two
from kernelzoo.tables import knob, numbers

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows across which memory is contiguous are taken by the cache line, at the least by the sector of a line."""

FEW_ROWS = 64
"""Elements of columns up to which tiles of rows are as good as strips."""

SINGLE_LEAST, SINGLE_LONGEST = {2: 2, 4: 5, 8: 5}, 64
"""Elements of rows across memory, by the bytes of one, from and up to which threads read single ones."""


@numbers
class Numbers:
    thread_bytes: int = knob(
        64,
        among=(32, 64, 128),
        unit="bytes",
        why="of a tile to a thread, as computed: four 16-byte loads in flight in float32, two in half precision",
    )
    warp_elements: int = knob(  # no program waits for a second warp
        1024, among=(512, 1024, 2048), unit="elements", why="of a tile of short rows, all of which one warp holds"
    )
    tiles_per_sm: int = knob(
        16, among=(4, 8, 16, 32), unit="tiles", why="such tiles are made no larger than leaves each SM so many"
    )
    tile_bytes: int = knob(  # 16 elements to each of 256 threads in float32; about four such programs share an SM
        16384, among=(8192, 16384, 32768), unit="bytes", why="of a tile across rows"
    )


def tile_warps(knobs: Numbers, device: Device, rows: Rows, elements: int) -> int:
    """Warps for a tile of so many elements."""
    return device.warps(elements * wide_bytes(rows) // knobs.thread_bytes)


def row_tile(knobs: Numbers, device: Device, rows: Rows, edges: int) -> tuple[int, int] | None:
    """(ROWS, COLS) of a tile of whole rows, or None if rows are too long to be taken side by side."""
    columns = tile_columns(rows.n, edges)
    wide = wide_bytes(rows)
    if not rows.across:
        elements = knobs.warp_elements // max(1, rows.itemsize // 2)  # wider elements take more registers of the warp
        even = power_of_two(1 + rows.total // (knobs.tiles_per_sm * device.multiprocessors))
        if 2 * columns > elements:
            return None
        if edges and rows.itemsize == 2 and columns == 64:
            elements //= 2  # the edges of eight rows take as many registers as their middle
        return max(1, min(elements // columns, even)), columns
    # A line of memory at a time while the tile is small, then what fits on chip (a quarter of it: each element of
    # such a tile may need an address, two registers more), down to a sector.
    side = max(LINE_BYTES // rows.itemsize, knobs.tile_bytes // wide // columns)
    side = min(side, ON_CHIP_BYTES // 4 // wide // columns)
    even = power_of_two(1 + rows.total // (2 * device.multiprocessors))
    side = min(side, max(LINE_BYTES // rows.itemsize, even))
    return (side, columns) if side >= SECTOR_BYTES // rows.itemsize else None


def single(rows: Rows) -> bool:
    """Whether threads read single elements of rows across memory, and have all of each, where vectors would deal rows
    out to several."""
    return rows.across and SINGLE_LEAST[rows.itemsize] <= rows.n <= SINGLE_LONGEST
