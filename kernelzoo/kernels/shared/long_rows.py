"""When a reduction splits its rows among several programs, and into how many parts: the same in every language."""

from kernelzoo.device import Device
from kernelzoo.layout import Rows, cdiv

LONG_ROW = 16384
"""The row length above which a second launch pays off, in elements."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Bytes of a cache line and of its sector. A program loads strided rows in groups as wide as a line, or a sector."""

LEAST_PART, MOST_PARTS = 2048, 512
"""The fewest elements per part that justify a program, and the most parts that one program merges at once."""

PROGRAMS = 4
"""Programs per multiprocessor, so that enough loads are in flight."""


def should_split_rows(rows: Rows, device: Device) -> bool:
    """Whether rows are long, and so few that one program per row would leave multiprocessors idle."""
    return rows.n > LONG_ROW and _row_programs(rows) < device.multiprocessors


def count_row_parts(rows: Rows, device: Device) -> int:
    """Return how many parts per row fill the device, at least 1. If parts have whole blocks, the last may be empty."""
    return max(1, min(MOST_PARTS, cdiv(rows.n, LEAST_PART), PROGRAMS * device.multiprocessors // _row_programs(rows)))


def _row_programs(rows: Rows) -> int:
    """Return the number of programs if no row is split."""
    return cdiv(rows.total, LINE_BYTES // rows.itemsize) if rows.is_strided else max(1, rows.planned)
