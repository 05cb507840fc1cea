"""Width and depth of strips of columns that programs keep in registers."""

from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.shared.long_rows import SECTOR_BYTES
from kernelzoo.layout import Columns, cdiv, next_power_of_two

MANY_STRIP_PARTS = 64
"""The number of programs per strip above which strips are narrower: each program awaits pairs from all others. If a
strip needs more than twice as many programs, columns are read twice."""


class Strips(NamedTuple):
    """Strips of columns that programs keep in registers. elements: the most per column. programs: programs per SM.
    registers: the limit per thread, or 0 for none. packed: whether two halves share a register."""

    columns: int
    elements: int
    threads: int
    programs: int
    registers: int
    packed: bool


def plan_strips(columns: Columns, device: Device) -> Strips | None:
    """Return strips that fit in registers: complete columns if strips have n elements, else parts of columns. Return
    None if columns are too long or too few, or if strips were not measured to be faster.

    A width of 128 bytes is best, with two programs of 256 threads per SM. Unaligned rows need twice the width.
    """
    n, itemsize = columns.n, columns.itemsize
    if device.vendor == "hip" or itemsize == 8:
        return None
    vectors = columns.stride_gcd * itemsize == 16
    packed = itemsize == 2 and vectors and columns.x_inner == 1 and columns.x_phase == 0
    whole = next_power_of_two(n)
    packed = packed and (whole <= 1024 or device.arch not in ("sm_100", "sm_103"))  # where it spills a few registers
    each = 2 if packed else 1
    if not vectors and 128 < n <= 1024:  # whole columns in so few registers would spill
        return None
    if whole <= 1024:
        # 64 registers per thread. Few threads if many rows would be masked, or if a strip would be too wide.
        few = packed or whole <= 256 or (whole == 512 and n <= 320)
        threads, programs, elements = (128, 4, whole) if few else (256, 2, whole)
    else:
        threads, programs, elements = (256, 2, (512 if vectors else 256))
    # With that limit, other architectures spill a few registers, so they have a higher one. 0 is no limit.
    registers = 128
    if device.arch not in ("", "sm_90"):
        threads, programs, registers = 128, 3, 0 if whole <= 1024 else 168
        elements = whole if whole <= 1024 else elements // 2
    width = 64 * each * threads // elements
    if whole > 1024 and cdiv(n, elements) > MANY_STRIP_PARTS:
        width, elements = width // 2, elements * 2
    while columns.inner < 0.75 * cdiv(columns.inner, width) * width:
        if width * itemsize <= SECTOR_BYTES or (whole <= 1024 and threads == 32):
            return None
        width //= 2
        if whole <= 1024:
            threads //= 2
        else:
            elements *= 2
    if cdiv(n, elements) > 2 * MANY_STRIP_PARTS:
        return None
    if whole == 128 and threads == 128 and not packed and registers == 128:
        threads, registers = 256, 64  # half as many per thread
    strips = Strips(width, elements, threads, programs, registers, packed)
    return strips if count_strip_parts(columns, strips, device) <= programs * device.multiprocessors else None


def count_strip_parts(columns: Columns, strips: Strips, device: Device) -> int:
    """Return the number of programs per strip: one if complete columns fit, else enough, or more to fill the device."""
    least = cdiv(columns.n, strips.elements)
    if least == 1:
        return 1
    room = strips.programs * device.multiprocessors // columns.strip_count(strips.columns)
    most = max(least, min(room, MANY_STRIP_PARTS, cdiv(columns.n, 64)))
    return cdiv(columns.n, cdiv(columns.n, most))
