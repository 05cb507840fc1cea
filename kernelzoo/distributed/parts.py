"""Splits a rank's shard of each row into parts, so that even a few rows keep the GPU busy.

A kernel treats a part as a row. The parts' (max, sum) states are merged with those of other ranks. All ranks have the
same number of parts per row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernelzoo.distributed.local import BoundOperation
from kernelzoo.layout import cdiv

BLOCKS = 528
"""The number of parts, of all rows, that fill a GPU: four per SM of an H200. It is fixed, so that ranks agree."""

MOST = 64
"""The most parts per row."""

UNIT = 64
"""The number of elements per part is a multiple of this, so that each part starts at an aligned vector."""


class RowSplit(NamedTuple):
    """The split of a shard's row: ``whole`` parts of ``span`` elements, then one part of ``rest`` elements."""

    whole: int
    span: int
    rest: int

    @property
    def nonempty_parts(self) -> int:
        """The number of parts that are not empty."""
        return self.whole + (self.rest > 0)


def count_row_parts(rows: int, on_gpu: bool) -> int:
    """Return the number of parts per row, which is the same on each rank."""
    return max(1, min(MOST, BLOCKS // max(rows, 1))) if on_gpu else 1


def split_elements(n: int, parts: int) -> RowSplit:
    """Split n elements into at most ``parts`` parts."""
    if parts == 1 or n < UNIT:
        return RowSplit(int(n > 0), n, 0)
    span = cdiv(n, parts * UNIT) * UNIT
    return RowSplit(n // span, span, n % span)


class PartwiseOperation:
    """An operation on all parts of shards of x's layout: a launch for full-size parts, another for the rest.

    If shards are split, they and the operation's other inputs must be contiguous. Their device must be current."""

    def __init__(self, backend: str, op: str, x: torch.Tensor, dim: int, cut: RowSplit) -> None:
        self._dim, self._cut, self._kept_shape = dim, cut, x.shape[:dim] + x.shape[dim + 1 :]
        self._first, self._last = BoundOperation(backend, op, x), BoundOperation(backend, op, x)

    def compute_part_statistics(
        self, shards: Sequence[torch.Tensor], row_inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]
    ) -> None:
        """Write statistics of each row's parts, such as their maxima and sums, into ``outs`` of shape (parts, rows).
        shards: the inputs of x's shape. row_inputs: the inputs with one number per row."""
        whole, span, rest = self._cut
        places = [one.data_ptr() for one in (*shards, *row_inputs, *outs)]
        if self._cut.nonempty_parts == 1:
            if not self._first.run_on_addresses(*places):
                self._first((*shards, *row_inputs), [one[0].view(self._kept_shape) for one in outs], self._dim)
            return
        if whole and not self._first.run_on_addresses(*places):
            self._first(self._full_parts(shards, row_inputs), [one[:whole].t() for one in outs], 2)
        if rest:
            behind = *(whole * span,) * len(shards), *(0,) * len(row_inputs), *(whole * one.stride(0) for one in outs)
            if not self._last.run_on_addresses(*_advance_addresses(places, behind, (*shards, *row_inputs, *outs))):
                self._last(self._last_part(shards, row_inputs), [one[whole] for one in outs], 1)

    def compute_result(
        self, shards: Sequence[torch.Tensor], row_inputs: Sequence[torch.Tensor], out: torch.Tensor
    ) -> None:
        """Write the result, of x's shape, into a contiguous tensor."""
        whole, span, rest = self._cut
        places = [one.data_ptr() for one in (*shards, *row_inputs, out)]
        if self._cut.nonempty_parts == 1:
            if not self._first.run_on_addresses(*places):
                self._first((*shards, *row_inputs), (out,), self._dim)
            return
        if whole and not self._first.run_on_addresses(*places):
            self._first(self._full_parts(shards, row_inputs), self._full_parts((out,), ()), 2)
        if rest:
            behind = *(whole * span,) * len(shards), *(0,) * len(row_inputs), whole * span
            if not self._last.run_on_addresses(*_advance_addresses(places, behind, (*shards, *row_inputs, out))):
                self._last(self._last_part(shards, row_inputs), self._last_part((out,), ()), 1)

    def _full_parts(self, shards: Sequence[torch.Tensor], row_inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs' parts of full size, with shapes (rows, parts, elements) and (rows, parts)."""
        whole, span, _ = self._cut
        total = math.prod(self._kept_shape)
        taken = [one.view(total, -1)[:, : whole * span].view(total, whole, span) for one in shards]
        return taken + [one.view(total, 1).expand(-1, whole) for one in row_inputs]

    def _last_part(self, shards: Sequence[torch.Tensor], row_inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs' last, shorter part, with shapes (rows, elements) and (rows,)."""
        whole, span, _ = self._cut
        total = math.prod(self._kept_shape)
        return [one.view(total, -1)[:, whole * span :] for one in shards] + [one.view(total) for one in row_inputs]


def _advance_addresses(places: Sequence[int], elements: Sequence[int], tensors: Sequence[torch.Tensor]) -> list[int]:
    """Advance each address by a number of its tensor's elements; returns the new addresses."""
    return [place + n * one.itemsize for place, n, one in zip(places, elements, tensors, strict=True)]
