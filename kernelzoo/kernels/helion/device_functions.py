"""What kernels have in common: sums that keep what they round off, and rows that begin anywhere in vectors.

Helion traces these as if they stood in the kernel. Of rows that begin anywhere there are the whole vectors inside a
row, and its two ends. Tensors are one axis then, and offsets count from their first element, which begins a vector of
``1 << shift`` elements.
"""

import helion.language as hl
import torch


def inside_of(row, n, shift: int):
    """Where the whole vectors of rows begin, and where they have ended. Multiples, as the compiler sees by the last
    operation: it reads a vector with one instruction only where it knows that."""
    first = ((row * n + ((1 << shift) - 1)) >> shift) * (1 << shift)
    stop = ((row * n + n) >> shift) * (1 << shift)
    return first, stop


def places_of_ends(row, n, first, stop, shift: int, part=0):
    """A vector's worth of places before the whole vectors of each row and one after them, and which are in the row: of
    several parts, only for the first."""
    lane = hl.arange(2 << shift).unsqueeze(0)
    before = lane < (1 << shift)
    place = torch.where(before, row * n + lane, stop + lane - (1 << shift))
    mine = lane + part * (2 << shift) < (2 << shift)
    return place, mine & torch.where(before, place < first, place < row * n + n)


def taken(x, place, here, nothing, wide: torch.dtype):
    """Elements of x as they are computed, and nothing where they are not here."""
    return torch.where(here, hl.load(x, [place], extra_mask=here).to(wide), nothing)


def rounded(x):
    """A product that is rounded before lanes add it up, see product in kernelzoo.kernels.triton.device_functions."""
    return x + 0.0


def add_exactly(total, lost, x):
    """(total + x, lost and what that rounded off), after Knuth (TAOCP 2, 4.2.2)."""
    new = total + x
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


def whole(total, lost):
    """A sum with what it rounded off, which is NaN where the sum is infinite."""
    return total + torch.where(lost == lost, lost, 0)


def float8_bits(value, hardware: bool):
    """float32 rounded to float8_e4m3fn, ties to even, as its bits. What is too large becomes the largest.

    By an instruction, or by integers where the hardware has none.
    """
    if hardware:
        return value.to(torch.float8_e4m3fn).view(torch.uint8)
    bits = value.view(torch.int32)
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude - (120 << 23) + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
    # Below 2^-6 the spacing is 2^-9, that of float32 from 2^14 to 2^15: adding 2^14 rounds to it.
    small = (torch.abs(value) + 16384.0).view(torch.int32) - (141 << 23)
    eight = torch.where(magnitude < (121 << 23), small, torch.clamp(normal, max=0x7E))
    return (torch.where(value == value, eight, 0x7F) | ((bits >> 24) & 0x80)).to(torch.uint8)
