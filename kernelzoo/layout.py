"""Where the rows of a canonical problem lie: once, for every language.

A *row* is the n elements that are reduced; a problem has ``outer * inner`` of them. ``Rows`` counts them so that
neighbours in number are neighbours in memory. Rows lie *along* memory (their elements side by side), or *across* it:
neighbouring rows, not neighbouring elements, are side by side, and the problem is better seen as ``Columns``. A row
that starts or ends inside a 16-byte vector has *edges* there. Rows that follow each other without a gap are *one piece*
of memory. Offsets need 64 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

VECTOR_BYTES = 16
"""The widest load or store of one instruction."""

_ITEMSIZE = {"float16": 2, "bfloat16": 2, "int16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8}


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


def power_of_two(number: int) -> int:
    """The smallest power of two that is no less than number."""
    return 1 << max(number - 1, 0).bit_length()


@dataclass(frozen=True)
class Layout:
    """Where the elements of a canonical problem lie: its ``outer * inner`` rows of n elements, by their strides.

    Strides count elements. The output of a reduction has one element a row and no step along it: its ``out_n`` is 0.
    """

    dtype: str
    outer: int
    n: int
    inner: int
    x_outer: int
    x_n: int
    x_inner: int
    out_outer: int
    out_n: int
    out_inner: int
    x_phase: int
    """Elements by which x starts past a 16-byte boundary."""
    out_phase: int

    @property
    def fields(self) -> dict[str, Any]:
        """All of the above, by name."""
        return {name: getattr(self, name) for name in Layout.__dataclass_fields__}

    @property
    def itemsize(self) -> int:
        return _ITEMSIZE.get(self.dtype, 1)

    @property
    def whole_vector(self) -> int:
        """Elements of a vector of 16 bytes."""
        return VECTOR_BYTES // self.itemsize


class Columns(Layout):
    """Rows that lie across, as columns: ``outer`` groups of ``inner`` neighbouring columns of n elements."""

    @property
    def side_by_side(self) -> bool:
        """Whether neighbouring columns have no gap between them, in out too."""
        return self.x_inner == 1 and (self.out_n == 0 or self.out_inner == 1)

    @property
    def one_piece(self) -> bool:
        """Whether the columns of both tensors are one piece of memory."""
        whole = self.outer == 1 and self.x_inner == 1 and self.x_n == self.inner
        return whole and (self.out_n == 0 or (self.out_inner == 1 and self.out_n == self.inner))

    @property
    def multiple(self) -> int:
        """The power of two, at most a vector, of which inner and all strides but the last are multiples."""
        written = (self.out_outer, self.out_n) if self.out_n else ()
        return math.gcd(self.whole_vector, self.inner, self.x_outer, self.x_n, *written)

    @property
    def aligned(self) -> bool:
        """Whether x and, for an output that has columns too, out start on a vector's boundary."""
        return self.x_phase == 0 and (self.out_n == 0 or self.out_phase == 0)

    @property
    def vector(self) -> int:
        """Neighbouring columns that can be moved at once: all of a vector of 16 bytes, or 1."""
        whole = self.whole_vector
        return whole if self.side_by_side and self.aligned and self.multiple == whole else 1

    def strips(self, columns: int) -> int:
        """How many strips of so many columns there are."""
        return self.outer * cdiv(self.inner, columns)


class Rows(Layout):
    """Rows by number: row r starts at ``r // inner * x_outer + r % inner * x_inner``, its elements are ``x_n`` apart;
    likewise in out. A stride that can't matter is 0 (1 for ``x_n`` of a row of one element).
    """

    @property
    def total(self) -> int:
        """How many rows there are."""
        return self.outer * self.inner

    @property
    def neighbours(self) -> int:
        """Rows that follow each other at one stride."""
        return self.inner if self.inner > 1 else self.outer

    @property
    def step(self) -> int:
        """Elements of x from a row to the next."""
        return self.x_inner if self.inner > 1 else self.x_outer

    @property
    def contiguous(self) -> bool:
        """Whether each row's elements lie side by side, in out too."""
        return self.n == 1 or (self.x_n == 1 and self.out_n in (0, 1))

    @property
    def across(self) -> bool:
        """Whether neighbouring rows, and not neighbouring elements of a row, are nearest in memory."""
        return self.total > 1 and self.n > 1 and 0 < self.step < self.x_n

    @property
    def one_piece(self) -> bool:
        """Whether the rows follow each other without a gap: all of x is one piece of memory, and all of out."""
        along = self.contiguous and self.inner == 1 and self.x_outer == self.n
        return along and self.out_outer == (self.n if self.out_n else 1)

    @property
    def aligned(self) -> bool:
        """Whether x and out both start on a 16-byte boundary."""
        return self.x_phase == self.out_phase == 0

    @property
    def ragged(self) -> bool:
        """Whether rows of a few vectors, or a row alone, follow each other without a gap, and begin anywhere in vectors
        though the first begins with one."""
        vector, alone = self.whole_vector, self.total == 1 and self.contiguous
        return (self.one_piece or alone) and self.aligned and self.n % vector > 0 and self.n >= 4 * vector

    @cached_property
    def common(self) -> int:
        """The power of two, at most 16, of which a row's length and the offsets of rows are multiples."""
        written = (self.out_outer, self.out_inner) if self.out_n else ()
        return math.gcd(16, self.n, self.x_outer, self.x_inner, *written)

    @property
    def apart(self) -> int:
        """0 where a row starts at the same place of a vector in x and in out, and so does every other; else a multiple
        of the most elements for which that is so."""
        if not self.out_n:
            return 0
        return (self.x_phase - self.out_phase) | (self.x_outer - self.out_outer) | (self.x_inner - self.out_inner)

    @cached_property
    def columns(self) -> Columns | None:
        """The same problem by columns, or None where rows don't lie across."""
        if not self.across:
            return None
        if self.inner > 1:
            return Columns(**self.fields)
        strides = 0, self.x_n, self.x_outer, 0, self.out_n, self.out_outer
        return Columns(self.dtype, 1, self.n, self.outer, *strides, self.x_phase, self.out_phase)


class Strides(NamedTuple):
    """Of a tensor beside x and out, by the rows of these: elements from row to row, and along one; where it has one
    element a row, ``n`` is 0."""

    outer: int
    n: int
    inner: int
    phase: int
    """Elements by which it starts past a 16-byte boundary."""


def rows_with(x: torch.Tensor, out: torch.Tensor, *others: torch.Tensor) -> tuple[Rows, tuple[Strides, ...]]:
    """Where the rows of x and of out lie, and those of other tensors, (outer, n, inner) or (outer, inner), each counted
    as x's are."""
    outer, n, inner = x.shape
    turned = _turned(outer, inner, x.stride(0), x.stride(2))
    found = []
    for tensor in others:
        first, last, along = tensor.stride(0), tensor.stride(-1), tensor.stride(1) if tensor.ndim == 3 else 0
        pairs = (outer, first), (inner, last)
        (groups, first), (rows, last) = reversed(pairs) if turned else pairs
        along = 1 if n == 1 and tensor.ndim == 3 else along
        phase = tensor.data_ptr() % VECTOR_BYTES // tensor.element_size()
        found.append(Strides(first if groups > 1 else 0, along, last if rows > 1 else 0, phase))
    return rows_of(x, out), tuple(found)


def _turned(outer: int, inner: int, x_outer: int, x_inner: int) -> bool:
    """Whether the outer axis is the one whose rows are neighbours."""
    return outer == 1 or (inner > 1 and x_outer < x_inner)


def rows_of(x: torch.Tensor, out: torch.Tensor) -> Rows:
    """Where the rows of x (outer, n, inner) and of out (outer, n, inner), or for a reduction (outer, inner), lie."""
    phases = x.data_ptr() % VECTOR_BYTES, out.data_ptr() % VECTOR_BYTES
    return _rows(x.dtype, x.shape, x.stride(), out.stride(), *phases)


@lru_cache(maxsize=4096)
def _rows(
    kind: torch.dtype,
    shape: tuple[int, ...],
    x_strides: tuple[int, ...],
    out_strides: tuple[int, ...],
    x_at: int,
    out_at: int,
) -> Rows:
    dtype = str(kind).removeprefix("torch.")
    outer, n, inner = shape
    x_outer, x_n, x_inner = x_strides
    out_outer, out_n, out_inner = out_strides if len(out_strides) == 3 else (out_strides[0], 0, out_strides[1])
    if _turned(outer, inner, x_outer, x_inner):
        outer, x_outer, out_outer, inner, x_inner, out_inner = inner, x_inner, out_inner, outer, x_outer, out_outer
    if inner == 1:
        x_inner = out_inner = 0
    if outer == 1:
        x_outer = out_outer = 0
    if n == 1:
        x_n, out_n = 1, out_n and 1
    size = _ITEMSIZE.get(dtype, 1)
    strides = x_outer, x_n, x_inner, out_outer, out_n, out_inner
    return Rows(dtype, outer, n, inner, *strides, x_at // size, out_at // size)
