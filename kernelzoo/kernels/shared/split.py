"""How a row is split over several blocks, and how many rows are in hand at a time: the same in every language."""

from typing import NamedTuple

from kernelzoo.layout import cdiv


class Split(NamedTuple):
    """Each row by ``parts`` blocks with up to ``span`` elements each; ``groups`` rows at a time."""

    parts: int
    span: int
    groups: int

    @property
    def blocks(self) -> int:
        """Of the whole launch: those of all rows in hand."""
        return self.parts * self.groups


def split(rows: int, n: int, parts: int, unit: int, resident: int) -> Split:
    """Rows of n elements cut into at most so many parts, each a multiple of ``unit`` elements but for the last one, and
    as many rows at a time as ``resident`` blocks take. No part is empty."""
    span = cdiv(n, parts * unit) * unit
    parts = cdiv(n, span)
    return Split(parts, span, max(1, min(rows, resident // parts)))
