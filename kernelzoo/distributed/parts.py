"""How a rank cuts its shard of each row into parts, so that few long rows keep its device busy too.

A part is to a kernel a row of its own; pairs of parts are merged with those of other ranks. All ranks have as many
parts a row, whatever their shards are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelzoo.distributed.local import Step
from kernelzoo.layout import cdiv

if TYPE_CHECKING:
    import torch

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


class Pass:
    """An operation for a backend over the parts of a shard that looks like x: whole ones by one launch, the rest by
    another. A shard that is cut is contiguous, and so are the tensors of one number a row that go with it. Its device
    must be current."""

    def __init__(self, backend: str, op: str, x: torch.Tensor, dim: int, cut: Cut) -> None:
        self._dim, self._cut, self._kept_shape = dim, cut, x.shape[:dim] + x.shape[dim + 1 :]
        self._first, self._last = Step(backend, op, x), Step(backend, op, x)

    def numbers(
        self, shards: Sequence[torch.Tensor], rows: Sequence[torch.Tensor], found: Sequence[torch.Tensor]
    ) -> None:
        """What a part has of each row, into tensors of (parts, rows). shards, rows: the operation's inputs, of x's
        shape, and after those of one number a row."""
        whole, span, rest = self._cut
        places = [one.data_ptr() for one in (*shards, *rows, *found)]
        if self._cut.filled == 1:
            if not self._first.moved(*places):
                self._first((*shards, *rows), [one[0].view(self._kept_shape) for one in found], self._dim)
            return
        if whole and not self._first.moved(*places):
            self._first(self._whole(shards, rows), [one[:whole].t() for one in found], 2)
        if rest:
            behind = *(whole * span,) * len(shards), *(0,) * len(rows), *(whole * one.stride(0) for one in found)
            if not self._last.moved(*_further(places, behind, (*shards, *rows, *found))):
                self._last(self._rest(shards, rows), [one[whole] for one in found], 1)

    def elements(self, shards: Sequence[torch.Tensor], rows: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """The result, of x's shape, into a contiguous tensor."""
        whole, span, rest = self._cut
        places = [one.data_ptr() for one in (*shards, *rows, out)]
        if self._cut.filled == 1:
            if not self._first.moved(*places):
                self._first((*shards, *rows), (out,), self._dim)
            return
        if whole and not self._first.moved(*places):
            self._first(self._whole(shards, rows), self._whole((out,), ()), 2)
        if rest:
            behind = *(whole * span,) * len(shards), *(0,) * len(rows), whole * span
            if not self._last.moved(*_further(places, behind, (*shards, *rows, out))):
                self._last(self._rest(shards, rows), self._rest((out,), ()), 1)

    def _whole(self, shards: Sequence[torch.Tensor], rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Of whole parts, as (rows, parts, elements) and (rows, parts)."""
        whole, span, _ = self._cut
        total = math.prod(self._kept_shape)
        taken = [one.view(total, -1)[:, : whole * span].view(total, whole, span) for one in shards]
        return taken + [one.view(total, 1).expand(-1, whole) for one in rows]

    def _rest(self, shards: Sequence[torch.Tensor], rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Of the part that is left over, as (rows, elements) and (rows)."""
        whole, span, _ = self._cut
        total = math.prod(self._kept_shape)
        return [one.view(total, -1)[:, whole * span :] for one in shards] + [one.view(total) for one in rows]


def _further(places: Sequence[int], elements: Sequence[int], tensors: Sequence[torch.Tensor]) -> list[int]:
    """Addresses so many elements of their tensors further on."""
    return [place + n * one.itemsize for place, n, one in zip(places, elements, tensors, strict=True)]


def cut_of(x: torch.Tensor, dim: int, parts: int, dense: bool) -> Cut:
    """How a shard is cut whose rows may have so many parts: into one where its elements don't lie side by side. dense:
    whether all tensors of a call are contiguous."""
    last = dense and math.prod(x.shape[dim + 1 :]) == 1
    return cut(x.size(dim), parts if last else 1)
