"""Width and depth of strips of columns, which programs keep in registers or read in blocks."""

from typing import Any, NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, SECTOR_BYTES
from kernelzoo.kernels.triton.softmax.tiles import FEW_ROWS
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv, next_power_of_two

HELD_PARTS, MANY_PARTS = 64, 512
"""The most programs per strip: if they keep parts in registers, and if they read parts twice. Each program reads the
results of all."""

MERGED_WORDS = 2048
"""The most words, of one partial result each, that a program reads at once."""

LEAST_PART = 64
"""The fewest elements of a column per program."""


class Strip(NamedTuple):
    """A strip of columns. A program keeps or reads a block of columns x elements. programs: programs per SM. registers:
    the limit per thread that allows so many. parts: programs per strip. span: elements of a column per program."""

    columns: int
    elements: int
    threads: int
    programs: int
    registers: int
    parts: int
    span: int

    @property
    def fits_registers(self) -> bool:
        """Whether all elements that a program takes fit in its registers."""
        return self.span <= self.elements

    @property
    def parts_at_once(self) -> int:
        """The number of parts whose partial results a program loads in one step."""
        return min(next_power_of_two(self.parts), MERGED_WORDS // self.columns)

    def grid(self, columns: Columns, device: Device) -> int:
        """Return the number of programs: one per strip, or all parts of as many strips as can be resident at once."""
        strips = columns.strip_count(self.columns)
        if self.parts == 1:
            return strips
        return max(1, min(strips, self.programs * device.multiprocessors // self.parts)) * self.parts

    def compiler_options(self, device: Device) -> dict[str, Any]:
        """Return the compiler's register limit. It makes programs that wait for each other resident at once."""
        return {"maxnreg": self.registers} if device.is_nvidia else {}


def choose_whole_strip(rows: Rows, device: Device, inputs: int) -> Strip | None:
    """Return a strip of complete columns whose inputs fit in one program's registers, or None if there is none.

    A strip is one memory line wide or, to fit, narrower, down to one sector. None is also returned if tiles are faster.
    """
    columns = rows.as_columns
    if columns is None or rows.n <= FEW_ROWS:
        return None
    threads, programs, registers, room = _strip_program_resources(columns, device, inputs)
    elements = next_power_of_two(columns.n)
    width = _strip_width(columns)
    while width * elements > room and width * columns.itemsize > SECTOR_BYTES:
        width //= 2
    if width * elements > room:
        return None
    threads = max(32, min(threads, threads * width * elements // room))
    if columns.stride_gcd * columns.itemsize < VECTOR_BYTES:
        threads *= 2  # elements that are read one by one take registers for their addresses
    return Strip(width, elements, threads, programs, registers, 1, columns.n)


def choose_shared_strip(columns: Columns, device: Device, inputs: int) -> Strip:
    """Return a strip that at least two programs share. It stays in registers if enough programs can be resident."""
    threads, programs, registers, room = _strip_program_resources(columns, device, inputs)
    resident = programs * device.multiprocessors
    width = _strip_width(columns)
    elements = min(room // width, next_power_of_two(columns.n) // 2)
    least = cdiv(columns.n, elements)
    most = HELD_PARTS
    if least > min(most, resident):
        elements, least, most = min(elements, room * inputs // 4 // width), 2, MANY_PARTS
    wanted = min(resident // columns.strip_count(width), cdiv(columns.n, LEAST_PART))
    parts = min(most, resident, max(least, wanted))
    span = cdiv(columns.n, parts)
    return Strip(width, elements, threads, programs, registers, cdiv(columns.n, span), span)


def _strip_width(columns: Columns) -> int:
    """Return the number of columns per strip: one memory line, or all columns if they are few."""
    line = LINE_BYTES // columns.itemsize
    return next_power_of_two(columns.inner) if columns.inner <= 2 * line else line


def _strip_program_resources(columns: Columns, device: Device, inputs: int) -> tuple[int, int, int, int]:
    """Return (threads, programs per SM, register limit per thread, elements of each input that a program can hold)."""
    if device.arch in ("", "sm_90"):
        threads, programs, registers, elements = 256, 2, 128, 64 // inputs
    else:  # the numbers above would spill a few registers
        threads, programs, registers, elements = 128, 3, 168, 32 if columns.itemsize == 2 else 64 // inputs
    return threads, programs, registers, elements // (2 if columns.itemsize == 8 else 1) * threads
