"""When several programs share each row of a reduction, and how many: the same in every language."""

from kernelzoo.device import Device
from kernelzoo.layout import Rows, cdiv

LONG_ROW = 16384
"""Elements above which a row is worth a second launch."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows that lie across memory are taken together, by the cache line, at the least by the sector of a line."""

LEAST_PART, MOST_PARTS = 2048, 512
"""Elements of a row that are worth a program of their own, and parts that one program reads at once."""

PROGRAMS = 4
"""To a multiprocessor, so that enough loads are under way."""


def takes_split(rows: Rows, device: Device) -> bool:
    """Whether rows are so long, and so few, that a program to each would leave multiprocessors idle."""
    return rows.n > LONG_ROW and _groups(rows) < device.multiprocessors


def parts_of(rows: Rows, device: Device) -> int:
    """Parts of a row that fill the device, at least one. The last may be empty once parts are whole blocks."""
    return max(1, min(MOST_PARTS, cdiv(rows.n, LEAST_PART), PROGRAMS * device.multiprocessors // _groups(rows)))


def _groups(rows: Rows) -> int:
    """Programs that take whole rows."""
    return cdiv(rows.total, LINE_BYTES // rows.itemsize) if rows.across else max(1, rows.planned)
