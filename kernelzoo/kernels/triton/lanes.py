"""A thread or a few lanes of a warp to each short row that begins anywhere in vectors: how many, and when that pays."""

from collections.abc import Mapping

from kernelzoo.layout import Rows, cdiv, power_of_two

MOST = 128
"""Elements of a row at the most: a lane's loads are all unrolled."""

WARPS = 4


def lanes_of(n: int, least: int) -> int:
    """Lanes to a row, a power of two, of so many elements each at the least."""
    return max(1, power_of_two(cdiv(n, least) + 1) // 2)


def pays(rows: Rows, longest: Mapping[int, int]) -> bool:
    """Whether rows are no whole vectors, and as short as that for the bytes of an element."""
    return not rows.across and rows.n % rows.whole_vector > 0 and rows.n <= longest.get(rows.itemsize, 0)
