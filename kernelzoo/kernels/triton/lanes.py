"""Lanes of a warp to each short row that begins anywhere in vectors."""

from kernelzoo.layout import cdiv, power_of_two

WARPS = 4
"""Of a program."""


def lanes_of(n: int, least: int) -> int:
    """Lanes to a row, a power of two, of so many elements each at the least."""
    return max(1, power_of_two(cdiv(n, least) + 1) // 2)
