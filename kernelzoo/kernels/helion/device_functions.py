"""Device functions that kernels share: compensated sums, reads of unaligned rows, and float8.

Helion traces these functions as part of the kernel. An unaligned row is read as its whole vectors (all aligned vectors
inside it) and its two ends. Tensors are flat: rows follow each other without gaps. Offsets count from a tensor's first
element, which is aligned. A vector has ``1 << shift`` elements.
"""

import helion.language as hl
import torch


def vector_bounds(row, n, shift: int):
    """Return the offsets at which each row's whole vectors begin and end. row: row numbers. The multiplication by the
    vector's length comes last, so that the compiler sees aligned offsets and loads vectors."""
    first = ((row * n + ((1 << shift) - 1)) >> shift) * (1 << shift)
    stop = ((row * n + n) >> shift) * (1 << shift)
    return first, stop


def row_end_indices(row, n, first, stop, shift: int, part=0):
    """Return (offsets, mask) of each row's elements outside its whole vectors [first, stop). Either end has less than a
    vector. If several programs share a row, the mask is empty for every part but the first."""
    lane = hl.arange(2 << shift).unsqueeze(0)
    before = lane < (1 << shift)
    place = torch.where(before, row * n + lane, stop + lane - (1 << shift))
    mine = lane + part * (2 << shift) < (2 << shift)
    return place, mine & torch.where(before, place < first, place < row * n + n)


def load_masked(x, place, mask, padding, acc_dtype: torch.dtype):
    """Load x at the offsets ``place`` in the accumulator dtype, or ``padding`` where the mask is False."""
    return torch.where(mask, hl.load(x, [place], extra_mask=mask).to(acc_dtype), padding)


def round_product(x):
    """Return a product, rounded before lanes add it up, as triton's ``rounded_product`` does. The reason is there."""
    return x + 0.0


def add_exactly(total, lost, x):
    """Return (total + x, lost + that sum's rounding error), after Knuth (TAOCP 2, 4.2.2)."""
    new = total + x
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


def add_rounding_error(total, lost):
    """Return total + lost, or total if lost is NaN. An infinite sum makes it NaN."""
    return total + torch.where(lost == lost, lost, 0)


def float8_bits(value, hardware: bool):
    """Return float32 values as the bits of float8_e4m3fn, ties to even. Values out of range become the largest number.

    hardware: whether to use a conversion instruction instead of integer operations.
    """
    if hardware:
        return value.to(torch.float8_e4m3fn).view(torch.uint8)
    bits = value.view(torch.int32)
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude - (120 << 23) + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
    # Below 2^-6, float8 values are 2^-9 apart, as float32 values from 2^14 to 2^15 are: adding 2^14 rounds to them.
    small = (torch.abs(value) + 16384.0).view(torch.int32) - (141 << 23)
    eight = torch.where(magnitude < (121 << 23), small, torch.clamp(normal, max=0x7E))
    return (torch.where(value == value, eight, 0x7F) | ((bits >> 24) & 0x80)).to(torch.uint8)
