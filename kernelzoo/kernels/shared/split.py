"""Plans that split each row among several blocks, for several rows at a time: the same in every language."""

from typing import NamedTuple

from kernelzoo.layout import cdiv


class Split(NamedTuple):
    """A plan: ``parts`` blocks share each row, with up to ``span`` elements each, for ``groups`` rows at a time."""

    parts: int
    span: int
    groups: int

    @property
    def blocks(self) -> int:
        """The number of blocks of the launch."""
        return self.parts * self.groups


def split(rows: int, n: int, parts: int, unit: int, resident: int) -> Split:
    """Split rows of n elements into at most ``parts`` parts, none empty. All but the last are multiples of ``unit``
    elements. As many rows are processed at a time as ``resident`` blocks take."""
    span = cdiv(n, parts * unit) * unit
    parts = cdiv(n, span)
    return Split(parts, span, max(1, min(rows, resident // parts)))
