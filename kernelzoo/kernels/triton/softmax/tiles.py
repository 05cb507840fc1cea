"""Tile sizes and warps for rows, or tiles of rows, that programs keep on chip. Several forms share them."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, SECTOR_BYTES
from kernelzoo.layout import Rows, cdiv, next_power_of_two
from kernelzoo.tables import form_knobs, knob

FEW_ROWS = 64
"""The column length up to which tiles are as fast as strips."""

SINGLE_LEAST, SINGLE_LONGEST = {2: 2, 4: 5, 8: 5}, 64
"""Lengths of columns that threads read element by element: the shortest, by bytes per element, and the longest."""


@form_knobs
class Knobs:
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
    row_elements: int = knob(
        16, among=(8, 16, 32), unit="elements", why="to a thread of a program that holds one row of wide elements"
    )
    double_elements: int = knob(
        8, among=(4, 8, 16), unit="elements", why="to a thread of a program that holds one row of float64, at the most"
    )
    half_elements: int = knob(
        32, among=(16, 32, 64), unit="elements", why="to a thread of a program that holds one row of half precision"
    )
    full_row: int = knob(
        16384,
        among=(4096, 8192, 16384),
        unit="elements",
        why="rows of wide elements from here on, without edges, take the most threads that a program may have",
    )
    packed_limit: int = knob(  # 32 words to each of 256 threads
        16384,
        among=(8192, 16384, 32768),
        unit="elements",
        why="of the longest row of half precision for few threads; longer ones, if many, go to persistent",
    )


def padded_length(n: int, edges: int) -> int:
    """Return a power of two that covers a row's complete vectors, or the row if it has no edges."""
    return next_power_of_two(n // edges * edges if edges else n)


def single_row_tile_length(rows: Rows, edges: int, id: str) -> int:
    """Return ``padded_length`` for a tile of one row. Raises UnsupportedProblemError if a row doesn't fit."""
    capacity = ON_CHIP_BYTES // rows.accumulator_bytes
    if rows.n > capacity:
        raise UnsupportedProblemError(id, f"a row must fit on chip, {capacity} of {rows.dtype}; got {rows.n}")
    return padded_length(rows.n, edges)


def row_warps(knobs: Knobs, device: Device, rows: Rows, edges: int) -> int:
    """Return the number of warps for one row. It depends on the row's length, not on that of its padded tile."""
    n = rows.n
    if rows.itemsize == 2 and n <= knobs.packed_limit:
        threads = max(32, min(256, n // knobs.half_elements))
    elif rows.itemsize == 8:  # rounded up: the exponentials' registers are spread over threads, too
        threads = max(32, min(1024, next_power_of_two(cdiv(n, knobs.double_elements))))
    else:
        threads = 1024 if n >= knobs.full_row and not edges else max(32, n // knobs.row_elements)
    return device.warps(next_power_of_two(threads + 1) // 2)


def row_warps_and_register_limit(knobs: Knobs, device: Device, rows: Rows, edges: int) -> tuple[int, dict[str, int]]:
    """Return the number of warps for one row, and the compiler's register limit."""
    if rows.dtype == "float64" and edges and padded_length(rows.n, edges) == 8192 and device.arch in ("sm_80", "sm_90"):
        # With edges, such a row would take 44 registers of 1024 threads, one program per multiprocessor. With 512
        # threads there are two, and no register is spilled.
        return device.warps(512), {"maxnreg": 64}
    return row_warps(knobs, device, rows, edges), {}


def tile_warps(knobs: Knobs, device: Device, rows: Rows, elements: int) -> int:
    """Return the number of warps for a tile of so many elements."""
    return device.warps(elements * rows.accumulator_bytes // knobs.thread_bytes)


def row_tile(knobs: Knobs, device: Device, rows: Rows, edges: int) -> tuple[int, int] | None:
    """Return (ROWS, COLS) of a tile of complete rows, or None if no tile has room for several rows."""
    columns = padded_length(rows.n, edges)
    element_bytes = rows.accumulator_bytes
    if not rows.is_strided:
        elements = knobs.warp_elements // max(1, rows.itemsize // 2)  # wider elements take more registers of the warp
        even = next_power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        if 2 * columns > elements:
            return None
        if edges and rows.itemsize == 2 and columns == 64:
            elements //= 2  # the edges of eight rows take as many registers as their middle
        return max(1, min(elements // columns, even)), columns
    # Columns: at least a memory line wide while the tile is small, then what fits in a quarter of the chip, down to a
    # sector. A quarter, since each element of such a tile may need two more registers for an address.
    side = max(LINE_BYTES // rows.itemsize, knobs.tile_bytes // element_bytes // columns)
    side = min(side, ON_CHIP_BYTES // 4 // element_bytes // columns)
    even = next_power_of_two(1 + rows.total // (2 * device.multiprocessors))
    side = min(side, max(LINE_BYTES // rows.itemsize, even))
    return (side, columns) if side >= SECTOR_BYTES // rows.itemsize else None


def has_one_column_per_thread(rows: Rows) -> bool:
    """Whether each thread reads a complete column, element by element."""
    return rows.is_strided and SINGLE_LEAST[rows.itemsize] <= rows.n <= SINGLE_LONGEST
