"""Rows that one program keeps in registers: their largest length, and the number of threads per row."""

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, SECTOR_BYTES
from kernelzoo.layout import Columns, Rows, next_power_of_two
from kernelzoo.tables import form_knobs, knob

ON_CHIP_BYTES = 32768 * 4
"""Bytes of the longest row that fits in one program's registers. The maximum of 1024 threads hold 32 float32 or 16
float64 elements each. This leaves half of a thread's 64 registers for everything else."""

STRIP_BYTES = 65536
"""Bytes of the largest strip of columns that fits in a program's registers: 64 registers in each of 256 threads."""


@form_knobs
class HeldRowKnobs:
    row_elements: int = knob(
        16, among=(8, 16, 32), unit="elements", why="to a thread of a program that holds one row of wide elements"
    )
    half_elements: int = knob(
        32, among=(16, 32), unit="elements", why="to a thread of a program that holds one row of half precision"
    )
    full_row: int = knob(
        16384, among=(4096, 8192, 16384), unit="elements", why="of a row for which a program takes the most threads"
    )
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of short rows as computed, which one warp holds"
    )
    tiles_per_sm: int = knob(
        16, among=(4, 8, 16, 32), unit="tiles", why="such tiles are made no larger than leaves each SM so many"
    )


def longest_row(rows: Rows, inputs: int) -> int:
    """Return the largest n for which registers hold a row of each input. If strided: 32 bytes of neighbouring rows."""
    if rows.as_columns is None:
        return ON_CHIP_BYTES // rows.accumulator_bytes // inputs
    least = min(SECTOR_BYTES // rows.itemsize, next_power_of_two(rows.as_columns.inner))
    return STRIP_BYTES // rows.accumulator_bytes // inputs // least


def check_fits(id: str, rows: Rows, inputs: int) -> None:
    """Raise UnsupportedProblemError if rows are longer than ``longest_row``. ``inputs``: the number of inputs."""
    if rows.n > (most := longest_row(rows, inputs)):
        raise UnsupportedProblemError(id, f"a row must fit on chip, {most} of {rows.dtype} laid out so; got {rows.n}")


def line_width(columns: Columns) -> int:
    """Return the number of columns per cache line, or of all columns if fewer, as a power of two."""
    return min(LINE_BYTES // columns.itemsize, next_power_of_two(columns.inner))


def strip_width(columns: Columns, inputs: int) -> int:
    """Return the width of a strip of columns, if registers hold one strip per input: a cache line if possible."""
    return min(line_width(columns), STRIP_BYTES // columns.accumulator_bytes // inputs // next_power_of_two(columns.n))


def row_threads(knobs: HeldRowKnobs, rows: Rows, half_precision_n: int) -> int:
    """Return the number of threads for one row: at most as many as the row's elements need, even if its tile is wider.
    ``half_precision_n``: the row length that half precision counts, such as the tile's width."""
    n = rows.n
    if rows.itemsize == 8:
        threads = next_power_of_two(n) // 8
    elif n >= knobs.full_row:
        threads = 1024
    else:
        threads = half_precision_n // knobs.half_elements if rows.itemsize == 2 else n // knobs.row_elements
    return next_power_of_two(max(32, min(threads, 1024)) + 1) // 2
