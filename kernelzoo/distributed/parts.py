"""How a rank cuts its shard of each row into parts, so that few long rows keep its device busy too.

A part is to a kernel a row of its own; pairs of parts are merged with those of other ranks. All ranks have as many
parts a row, whatever their shards are.
"""

from __future__ import annotations

from typing import NamedTuple

from kernelzoo.layout import cdiv

BLOCKS = 528
"""That parts should make on a GPU at the least: four to each of an H200's multiprocessors, the same on every card, lest
ranks differ."""

MOST = 64
"""Parts of a row."""

UNIT = 64
"""Elements, of which a part has a multiple, so that all parts begin where rows may be read in vectors."""


class Cut(NamedTuple):
    """Of a shard of n elements a row: ``whole`` parts of ``span`` elements each, and one of the ``rest``, if any."""

    whole: int
    span: int
    rest: int

    @property
    def filled(self) -> int:
        """Parts that are not empty."""
        return self.whole + (self.rest > 0)


def parts_of(rows: int, on_gpu: bool) -> int:
    """Parts to a row, the same on each rank."""
    return max(1, min(MOST, BLOCKS // max(rows, 1))) if on_gpu else 1


def cut(n: int, parts: int) -> Cut:
    """A shard of n elements cut into up to so many parts."""
    if parts == 1 or n < UNIT:
        return Cut(int(n > 0), n, 0)
    span = cdiv(n, parts * UNIT) * UNIT
    return Cut(n // span, span, n % span)
