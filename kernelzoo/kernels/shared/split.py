"""Plans that split each row among several blocks, for several rows at a time: the same in every language."""

from typing import NamedTuple

from kernelzoo.layout import cdiv


class RowSplit(NamedTuple):
    """A plan: ``parts`` blocks share a row, up to ``span`` elements each; ``groups`` rows are processed at a time."""

    parts: int
    span: int
    groups: int

    @property
    def blocks(self) -> int:
        """The number of blocks of the launch."""
        return self.parts * self.groups


def split(rows: int, n: int, parts: int, unit: int, resident: int) -> RowSplit:
    """Split rows of n elements into at most ``parts`` parts, none empty. Each part but the last is a multiple of
    ``unit`` elements. At most ``resident`` blocks run, which limits the number of rows processed at a time."""
    span = cdiv(n, parts * unit) * unit
    parts = cdiv(n, span)
    return RowSplit(parts, span, max(1, min(rows, resident // parts)))
