"""Rows that one program holds in registers: how long they may be, and how many threads have one."""

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, SECTOR_BYTES
from kernelzoo.layout import Columns, Rows, power_of_two
from kernelzoo.tables import knob, numbers

ON_CHIP_BYTES = 32768 * 4
"""The widest row one program holds in registers: 1024 threads (the most a program may have) times 32 elements of
float32, or 16 of float64, which leaves half of the 64 registers a thread has then for everything else."""

STRIP_BYTES = 65536
"""Of a strip of columns as it is computed, that a program holds: 64 registers of each of 256 threads."""


@numbers
class Numbers:
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


def longest(rows: Rows, inputs: int) -> int:
    """Elements of the longest rows that a program holds, of so many inputs. Across memory at least a sector of them."""
    if rows.columns is None:
        return ON_CHIP_BYTES // rows.wide_bytes // inputs
    least = min(SECTOR_BYTES // rows.itemsize, power_of_two(rows.columns.inner))
    return STRIP_BYTES // rows.wide_bytes // inputs // least


def check_held(id: str, rows: Rows, inputs: int) -> None:
    """Raise UnsupportedProblemError if no program holds a row of so many inputs."""
    if rows.n > (most := longest(rows, inputs)):
        raise UnsupportedProblemError(id, f"a row must fit on chip, {most} of {rows.dtype} laid out so; got {rows.n}")


def line_of(columns: Columns) -> int:
    """A line of memory of columns, or all of them if they are few."""
    return min(LINE_BYTES // columns.itemsize, power_of_two(columns.inner))


def strip_of(columns: Columns, inputs: int) -> int:
    """Columns of the strip that a program holds of so many inputs: a line wide if it fits."""
    return min(line_of(columns), STRIP_BYTES // columns.wide_bytes // inputs // power_of_two(columns.n))


def row_threads(knobs: Numbers, rows: Rows, fed: int) -> int:
    """Threads for one row: no more than the row itself can feed, however wide its tile is. fed: elements of half
    precision that do."""
    n = rows.n
    if rows.itemsize == 8:
        threads = power_of_two(n) // 8
    elif n >= knobs.full_row:
        threads = 1024
    else:
        threads = fed // knobs.half_elements if rows.itemsize == 2 else n // knobs.row_elements
    return power_of_two(max(32, min(threads, 1024)) + 1) // 2
