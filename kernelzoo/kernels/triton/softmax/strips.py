"""Strips of columns that programs hold in registers: how wide and how deep they are."""

from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.shared.long_rows import SECTOR_BYTES
from kernelzoo.layout import Columns, cdiv, power_of_two

MANY_STRIP_PARTS = 64
"""Programs to a strip of columns above which it is made narrower: each awaits a pair of all columns from all others. Of
more than twice as many, columns are read twice."""


class Strips(NamedTuple):
    """A program that holds a strip of columns. How many, up to how many elements of each, its threads, how many such
    programs share an SM, registers of a thread or 0, and whether two halves share one of those."""

    columns: int
    elements: int
    threads: int
    programs: int
    registers: int
    packed: bool


def strips_of(columns: Columns, device: Device) -> Strips | None:
    """Strips that programs hold in registers, whole columns if elements are n or more, else parts. None where the
    columns are too few to fill them or too long, or no measurement speaks for them.

    128 bytes of each row are best, of which two programs of 256 threads share an SM. Rows at odd addresses want twice
    as much.
    """
    n, itemsize = columns.n, columns.itemsize
    if device.vendor == "hip" or itemsize == 8:
        return None
    vectors = columns.multiple * itemsize == 16
    packed = itemsize == 2 and vectors and columns.x_inner == 1 and columns.x_phase == 0
    whole = power_of_two(n)
    packed = packed and (whole <= 1024 or device.arch not in ("sm_100", "sm_103"))  # where it spills a few registers
    each = 2 if packed else 1
    if not vectors and 128 < n <= 1024:  # whole columns in so few registers would spill
        return None
    if whole <= 1024:
        # 64 registers to a thread, of few threads where many rows would be masked, or a strip would be too wide.
        few = packed or whole <= 256 or (whole == 512 and n <= 320)
        threads, programs, elements = (128, 4, whole) if few else (256, 2, whole)
    else:
        threads, programs, elements = (256, 2, (512 if vectors else 256))
    # What suffices there spills a few registers on other architectures, which get more: 0 are as many as it takes.
    registers = 128
    if device.arch not in ("", "sm_90"):
        threads, programs, registers = 128, 3, 0 if whole <= 1024 else 168
        elements = whole if whole <= 1024 else elements // 2
    wide = 64 * each * threads // elements
    if whole > 1024 and cdiv(n, elements) > MANY_STRIP_PARTS:
        wide, elements = wide // 2, elements * 2
    while columns.inner < 0.75 * cdiv(columns.inner, wide) * wide:
        if wide * itemsize <= SECTOR_BYTES or (whole <= 1024 and threads == 32):
            return None
        wide //= 2
        if whole <= 1024:
            threads //= 2
        else:
            elements *= 2
    if cdiv(n, elements) > 2 * MANY_STRIP_PARTS:
        return None
    if whole == 128 and threads == 128 and not packed and registers == 128:
        threads, registers = 256, 64  # half as many to a thread
    strips = Strips(wide, elements, threads, programs, registers, packed)
    return strips if strip_parts(columns, strips, device) <= programs * device.multiprocessors else None


def strip_parts(columns: Columns, strips: Strips, device: Device) -> int:
    """Programs to a strip of columns. One if it can hold them, else as few as can, and more where there is room."""
    least = cdiv(columns.n, strips.elements)
    if least == 1:
        return 1
    room = strips.programs * device.multiprocessors // columns.strips(strips.columns)
    most = max(least, min(room, MANY_STRIP_PARTS, cdiv(columns.n, 64)))
    return cdiv(columns.n, cdiv(columns.n, most))
