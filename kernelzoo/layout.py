"""The memory of tensors, and the layout of the rows of a canonical problem, for all languages.

A *row* is the n elements that are reduced; a problem has ``outer * inner`` of them. ``Rows`` numbers them so that
consecutive rows are neighbours in memory. Usually a row's elements are contiguous. If the reduction axis is strided,
neighbouring rows are contiguous instead, and ``Columns`` describes the problem better. A row that starts or ends
inside a 16-byte vector has an unaligned head or tail there. Rows without gaps between them are *one piece* of memory.
Offsets need 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import mul
from typing import Any, NamedTuple, TypeAlias

from kernelzoo.device import is_batch_invariant
from kernelzoo.lazy import torch

Sizes: TypeAlias = "tuple[int, ...]"
"""Sizes or strides of axes."""

VECTOR_BYTES = 16
"""Bytes of the widest load or store of one instruction."""

PLANNED_ELEMENTS = 2**22
"""The number of elements for which a batch-invariant launch is planned, whatever the number of rows."""

MANY = 2**15
"""With more rows than this, the best variant and launch parameters stay the same."""

_ITEMSIZE = {"float16": 2, "bfloat16": 2, "int16": 2, "float32": 4, "int32": 4, "float64": 8, "int64": 8}


def dtype_name(dtype: torch.dtype) -> str:
    """``"float32"`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def bool_as_uint8(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor as kernels can load and compare it: bool is viewed as uint8."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def min_identity(dtype: torch.dtype) -> float | int:
    """Return the minimum of zero elements: the largest value of that dtype."""
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def cdiv(a: int, b: int) -> int:
    """Return ``a / b`` rounded up."""
    return -(-a // b)


def unravel_index(place: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """Return an element's index along each axis from its number. ``torch.unravel_index`` takes seconds to import."""
    indices = []
    for size in reversed(shape):
        indices.append(place % size)
        place = place // size
    return tuple(reversed(indices))


def next_power_of_two(minimum: int) -> int:
    """Return the smallest power of two that is at least ``minimum``."""
    return 1 << max(minimum - 1, 0).bit_length()


# --- The memory of a tensor ------------------------------------------------------------------------------------------
# torch frees, shrinks and moves storages under their tensors, for example FSDP by ``untyped_storage().resize_(0)``.


def span(x: torch.Tensor) -> int:
    """Return the bytes from a tensor's first element to the end of its last; 0 if it is empty."""
    shape, strides = x.shape, x.stride()
    return (1 + sum(map(mul, shape, strides)) - sum(strides)) * x.element_size() if 0 not in shape else 0


def storage_covers(x: torch.Tensor, size: int) -> bool:
    """Whether a tensor's storage has all ``size`` bytes that the tensor spans."""
    address, storage = x.data_ptr(), x.untyped_storage()
    return address != 0 and address + size <= storage.data_ptr() + len(storage)


def describe_missing_storage(x: torch.Tensor, size: int) -> str:
    """Return a storage's fault, and the remedy; "" if it contains all bytes that the tensor spans."""
    if not size or storage_covers(x, size):
        return ""
    return short_storage_message(len(x.untyped_storage()), int(x.storage_offset()) * x.element_size() + size)


def short_storage_message(capacity: int, end: int) -> str:
    """Return the message for a storage of ``capacity`` bytes whose tensor's elements end at byte ``end``."""
    return (
        f"has no memory for its elements: they end at byte {end} of a storage of {capacity} bytes, which was freed or "
        "shrunk; resize the storage first, or pass a tensor that has its memory"
    )


# --- The layout of a problem -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The layout of a canonical problem: the strides of its ``outer * inner`` rows of n elements.

    Strides are in elements. The output of a reduction has one element a row, so ``out_n`` is 0.
    """

    dtype: str
    out_dtype: str
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
    """Elements from a 16-byte boundary to the start of x."""
    out_phase: int
    planned: int
    """The number of rows assumed when choosing variants and tiles. In a batch-invariant call it depends only on n."""
    single: bool
    """Whether to load elements one by one, because rows of a batch-invariant call may start anywhere in a vector."""

    @property
    def fields(self) -> dict[str, Any]:
        """All fields, by name."""
        return {name: getattr(self, name) for name in Layout.__dataclass_fields__}

    @property
    def itemsize(self) -> int:
        return _ITEMSIZE.get(self.dtype, 1)

    @property
    def accumulator_bytes(self) -> int:
        """Bytes of an element in its accumulator dtype."""
        return max(4, self.itemsize)

    @property
    def vector_elements(self) -> int:
        """Elements of a 16-byte vector."""
        return VECTOR_BYTES // self.itemsize


class Columns(Layout):
    """Rows with a strided reduction axis, seen as columns: ``outer`` groups of ``inner`` neighbouring columns."""

    @property
    def side_by_side(self) -> bool:
        """Whether neighbouring columns have no gap between them, also in out."""
        return self.x_inner == 1 and (self.out_n == 0 or self.out_inner == 1)

    @property
    def is_gapless(self) -> bool:
        """Whether the columns of x have no gaps between them in memory, and those of out neither."""
        whole = self.outer == 1 and self.x_inner == 1 and self.x_n == self.inner
        return whole and (self.out_n == 0 or (self.out_inner == 1 and self.out_n == self.inner))

    @property
    def stride_gcd(self) -> int:
        """The largest power of two, up to a vector's elements, that divides ``inner`` and other axes' strides."""
        written = (self.out_outer, self.out_n) if self.out_n else ()
        return math.gcd(self.vector_elements, self.inner, self.x_outer, self.x_n, *written)

    @property
    def aligned(self) -> bool:
        """Whether x is aligned to a vector, and out too if it has columns."""
        return self.x_phase == 0 and (self.out_n == 0 or self.out_phase == 0)

    @property
    def load_width(self) -> int:
        """The number of columns to load at once: those of a full 16-byte vector, or 1."""
        whole = self.vector_elements
        return whole if self.side_by_side and self.aligned and self.stride_gcd == whole else 1

    def strip_count(self, strip_columns: int) -> int:
        """The number of strips that cover all columns. A strip has ``strip_columns`` neighbouring columns."""
        return self.outer * cdiv(self.inner, strip_columns)


class Rows(Layout):
    """Rows by number: row r starts at ``r // inner * x_outer + r % inner * x_inner``. Its elements are ``x_n`` apart.
    The same holds for out. Irrelevant strides are 0 (1 for ``x_n`` of a row of one element)."""

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.outer * self.inner

    @property
    def with_planned_rows(self) -> Rows:
        """The same layout with ``planned`` rows, the number to assume when choosing variants and tiles."""
        return self if self.planned == self.total else replace(self, outer=self.planned, inner=1)

    @property
    def with_vector_loads(self) -> Rows:
        """The same rows with vector loads, for batch-invariant variants whose bits don't depend on alignment."""
        return replace(self, single=False, x_phase=0)

    @property
    def evenly_spaced_rows(self) -> int:
        """The number of consecutive rows with the same stride between them."""
        return self.inner if self.inner > 1 else self.outer

    @property
    def row_stride(self) -> int:
        """The stride in x from a row to the next."""
        return self.x_inner if self.inner > 1 else self.x_outer

    @property
    def contiguous(self) -> bool:
        """Whether each row's elements are contiguous, also in out."""
        return self.n == 1 or (self.x_n == 1 and self.out_n in (0, 1))

    @property
    def is_strided(self) -> bool:
        """Whether the reduction axis is strided, so that neighbouring rows are nearest in memory."""
        return self.total > 1 and self.n > 1 and 0 < self.row_stride < self.x_n

    @property
    def is_gapless(self) -> bool:
        """Whether there are no gaps between rows, so that x and out are each one piece of memory."""
        along = self.contiguous and self.inner == 1 and self.x_outer == self.n
        return along and self.out_outer == (self.n if self.out_n else 1)

    @property
    def aligned(self) -> bool:
        """Whether x and out both start on a 16-byte boundary."""
        return self.x_phase == self.out_phase == 0

    @property
    def ends_inside_vector(self) -> bool:
        """Whether gapless rows (or a single one) start aligned, have four vectors or more, and end inside a vector."""
        vector, alone = self.vector_elements, self.planned == 1 and self.contiguous
        return (self.is_gapless or alone) and self.aligned and self.n % vector > 0 and self.n >= 4 * vector

    def offset_gcd(self, *others: Strides) -> int:
        """Return the largest power of two, up to 16, that divides n and all rows' offsets; 1 for single loads."""
        written = (self.out_outer, self.out_inner) if self.out_n else ()
        read = (stride for other in others for stride in (other.outer, other.inner))
        return math.gcd(1 if self.single else 16, self.n, self.x_outer, self.x_inner, *written, *read)

    @property
    def alignment_difference(self) -> int:
        """How far x's and out's rows differ in alignment, in elements. Its gcd with a vector's length suits both."""
        if not self.out_n:
            return int(self.single)
        return (self.x_phase - self.out_phase) | (self.x_outer - self.out_outer) | (self.x_inner - self.out_inner)

    @cached_property
    def as_columns(self) -> Columns | None:
        """The problem seen as columns; None unless the reduction axis is strided."""
        if not self.is_strided:
            return None
        if self.inner > 1:
            return Columns(**self.fields)
        strides = 0, self.x_n, self.x_outer, 0, self.out_n, self.out_outer
        phases = self.x_phase, self.out_phase
        return Columns(self.dtype, self.out_dtype, 1, self.n, self.outer, *strides, *phases, self.planned, self.single)


class Strides(NamedTuple):
    """Another tensor's strides between the rows of x, and along a row (0 if it has one element per row)."""

    outer: int
    n: int
    inner: int
    phase: int
    """Elements from a 16-byte boundary to its start."""


def layouts_of(x: torch.Tensor, out: torch.Tensor, *others: torch.Tensor) -> tuple[Rows, tuple[Strides, ...]]:
    """Return the rows of x and out, and others' strides. Others' shapes: (outer, n, inner), (outer, inner) or (n,)."""
    outer, n, inner = x.shape
    turned, rows_of_x = _swaps_axes(outer, inner, x.stride(0), x.stride(2)), rows_of(x, out)
    found = []
    for tensor in others:
        first, along, last = _strides(tensor)
        pairs = (outer, first), (inner, last)
        (groups, first), (rows, last) = reversed(pairs) if turned else pairs
        along = 1 if n == 1 and tensor.ndim != 2 else along
        first = first if groups > 1 or is_batch_invariant() else 0
        found.append(Strides(first, along, last if rows > 1 else 0, misalignment(tensor) or int(rows_of_x.single)))
    return rows_of_x, tuple(found)


def _strides(tensor: torch.Tensor) -> Sizes:
    """Return a tensor's strides along (outer, n, inner): 0 along an axis that it doesn't have."""
    strides = tensor.stride()
    if len(strides) == 1:
        return 0, strides[0], 0
    return strides if len(strides) == 3 else (strides[0], 0, strides[1])


def _swaps_axes(outer: int, inner: int, x_outer: int, x_inner: int) -> bool:
    """Whether neighbouring rows lie along the outer axis, so that outer and inner are swapped."""
    return (outer == 1 and not is_batch_invariant()) or (inner > 1 and x_outer < x_inner)


def rows_of(x: torch.Tensor, out: torch.Tensor) -> Rows:
    """Return the rows of x, of shape (outer, n, inner). out has that shape; if reduced, (outer, inner) or (n,)."""
    dtypes, phases = (x.dtype, out.dtype), (misalignment(x), misalignment(out))
    return _make_rows(dtypes, x.shape, x.stride(), _strides(out), phases, is_batch_invariant())


def fills_whole_vectors(n: int, itemsize: int) -> bool:
    """Whether n elements of ``itemsize`` bytes fill whole 16-byte vectors."""
    return n * itemsize % VECTOR_BYTES == 0


def misalignment(tensor: torch.Tensor) -> int:
    """Return the number of elements from a 16-byte boundary to a tensor's start."""
    return tensor.data_ptr() % VECTOR_BYTES // tensor.element_size()


@lru_cache(maxsize=4096)
def _make_rows(
    dtypes: tuple[torch.dtype, ...], shape: Sizes, x_strides: Sizes, out_strides: Sizes, phases: Sizes, invariant: bool
) -> Rows:
    if _swaps_axes(shape[0], shape[2], x_strides[0], x_strides[2]):
        shape, x_strides, out_strides = shape[::-1], x_strides[::-1], out_strides[::-1]
    outer, n, inner = shape
    x_outer, x_n, x_inner = x_strides
    out_outer, out_n, out_inner = out_strides
    if inner == 1:
        x_inner = out_inner = 0
    if outer == 1 and not invariant:
        x_outer = out_outer = 0
    if n == 1:
        x_n, out_n = 1, out_n and 1
    strides = x_outer, x_n, x_inner, out_outer, out_n, out_inner
    planned = max(2, PLANNED_ELEMENTS // max(1, n)) if invariant else outer * inner
    dtype, out_dtype = map(dtype_name, dtypes)
    single = invariant and not fills_whole_vectors(n, dtypes[0].itemsize)
    x_phase, out_phase = (1, 0) if single else phases
    return Rows(dtype, out_dtype, outer, n, inner, *strides, x_phase, out_phase, planned, single)
