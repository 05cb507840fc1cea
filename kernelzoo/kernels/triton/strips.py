"""Strips of columns that programs hold in registers, or go through in blocks: how wide and how deep they are."""

from typing import Any, NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, SECTOR_BYTES
from kernelzoo.kernels.triton.softmax.tiles import FEW_ROWS
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv, power_of_two

HELD_PARTS, MANY_PARTS = 64, 512
"""Programs to a strip of columns, at the most, that hold their parts, and that read them twice: each reads what all of
them have left."""

MERGED_WORDS = 2048
"""Of those, that a program reads at once."""

LEAST_PART = 64
"""Elements of a column that are worth a program of their own."""


class Strip(NamedTuple):
    """A program's block of columns. Columns and elements of each, its threads, how many such programs share an SM,
    registers of a thread that leave room for them, and programs to a strip, each of which has ``span`` elements of a
    column."""

    columns: int
    elements: int
    threads: int
    programs: int
    registers: int
    parts: int
    span: int

    @property
    def holds(self) -> bool:
        """Whether a program holds all elements that it has."""
        return self.span <= self.elements

    @property
    def lanes(self) -> int:
        """Parts whose words a program reads at once."""
        return min(power_of_two(self.parts), MERGED_WORDS // self.columns)

    def grid(self, columns: Columns, device: Device) -> int:
        """Programs of a launch: whole strips to one each, else as many strips at a time as the device holds."""
        strips = columns.strips(self.columns)
        if self.parts == 1:
            return strips
        return max(1, min(strips, self.programs * device.multiprocessors // self.parts)) * self.parts

    def options(self, device: Device) -> dict[str, Any]:
        """What the compiler is told of registers where programs wait for each other."""
        return {"maxnreg": self.registers} if device.is_nvidia else {}


def whole_strip(rows: Rows, device: Device, inputs: int) -> Strip | None:
    """A strip of whole columns to a program, which holds so many inputs of it. None where it can't, or tiles do better.

    A strip is a line of memory wide, or down to a sector if it fits then.
    """
    columns = rows.columns
    if columns is None or rows.n <= FEW_ROWS:
        return None
    threads, programs, registers, room = _program(columns, device, inputs)
    elements = power_of_two(columns.n)
    wide = _width(columns)
    while wide * elements > room and wide * columns.itemsize > SECTOR_BYTES:
        wide //= 2
    if wide * elements > room:
        return None
    threads = max(32, min(threads, threads * wide * elements // room))
    if columns.multiple * columns.itemsize < VECTOR_BYTES:
        threads *= 2  # elements that are read one by one take registers for their addresses
    return Strip(wide, elements, threads, programs, registers, 1, columns.n)


def shared_strip(columns: Columns, device: Device, inputs: int) -> Strip:
    """A strip that several programs, at least two, share; they hold it if so many can run at once."""
    threads, programs, registers, room = _program(columns, device, inputs)
    resident = programs * device.multiprocessors
    wide = _width(columns)
    elements = min(room // wide, power_of_two(columns.n) // 2)
    least = cdiv(columns.n, elements)
    most = HELD_PARTS
    if least > min(most, resident):
        elements, least, most = min(elements, room * inputs // 4 // wide), 2, MANY_PARTS
    wanted = min(resident // columns.strips(wide), cdiv(columns.n, LEAST_PART))
    parts = min(most, resident, max(least, wanted))
    span = cdiv(columns.n, parts)
    return Strip(wide, elements, threads, programs, registers, cdiv(columns.n, span), span)


def _width(columns: Columns) -> int:
    """A line of memory, or all columns if they are few."""
    line = LINE_BYTES // columns.itemsize
    return power_of_two(columns.inner) if columns.inner <= 2 * line else line


def _program(columns: Columns, device: Device, inputs: int) -> tuple[int, int, int, int]:
    """(threads, programs to an SM, registers of a thread, elements of each input in 64 of those)."""
    if device.arch in ("", "sm_90"):
        threads, programs, registers, elements = 256, 2, 128, 64 // inputs
    else:  # what suffices there spills a few registers
        threads, programs, registers, elements = 128, 3, 168, 32 if columns.itemsize == 2 else 64 // inputs
    return threads, programs, registers, elements // (2 if columns.itemsize == 8 else 1) * threads
