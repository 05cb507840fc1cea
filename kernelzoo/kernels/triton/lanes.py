"""A thread or a few lanes of a warp to each short row that begins anywhere in vectors: how many, and when that pays."""

from collections.abc import Mapping

from kernelzoo.layout import Rows, cdiv, power_of_two

MOST = 128
"""Elements of a row at the most: a lane's loads are all unrolled."""

WARPS = 4

SHORTEST = 8
"""Elements of a row, up to which lanes do better than a tile also where programs are few."""


def lanes_of(n: int, least: int) -> int:
    """Lanes to a row, a power of two, of so many elements each at the least."""
    return max(1, power_of_two(cdiv(n, least) + 1) // 2)


def pays(rows: Rows, longest: Mapping[int, int], side: int, programs: int) -> bool:
    """Whether rows are no whole vectors, as short as that for the bytes of an element, and, side by side, so many
    programs at the least, unless they are very short."""
    odd = not rows.across and rows.n % rows.whole_vector
    enough = rows.n <= SHORTEST or cdiv(rows.total, side) >= programs
    return bool(odd) and rows.n <= longest.get(rows.itemsize, 0) and enough
