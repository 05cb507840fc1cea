"""The layout of a problem's rows, and the tilings by which blocks of threads cover them.

A *row* is the n elements that are reduced. A ``Tiling`` divides a block into ``rows`` groups of ``lanes`` threads, one
group per row. Each thread reads ``tiles`` vectors of ``vec`` elements at a time. Neighbouring threads read neighbouring
vectors of one row or, if ``across``, the same element of neighbouring rows. The latter makes loads contiguous if the
reduced axis is not the innermost one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import is_packed, register_type
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, Strides, cdiv, layouts_of, misalignment, next_power_of_two


@dataclass(frozen=True)
class RowView(Rows):
    """The rows of a problem on a device, and the vector widths at which they can be read."""

    device: Device

    vec: int
    """How many elements along a row can be moved at once, a power of two."""
    edges: bool
    """Whether some row begins or ends off a boundary of ``vec`` elements."""
    pack: int = 1
    """Elements of the widest vector that is contiguous and aligned in every row of every tensor, a power of two."""
    companions: tuple[Strides, ...] = ()  # strides of the tensors between x and out
    phases: tuple[int, int] = (0, 0)  # actual phases of x and out, if ``single`` sets others
    exact: bool = False  # whether exponentials are added exactly, see softmax/exact.py

    @property
    def kernel_args(self) -> tuple[int, ...]:
        """The integers that every kernel takes after its pointers. Strides of tensors between x and out come last."""
        return (
            *(self.total, self.inner, self.n),
            *(self.x_outer, self.x_n, self.x_inner),
            *(self.out_outer, self.out_n, self.out_inner),
            self.x_phase,
            *(stride for companion in self.companions for stride in companion[:3]),
        )

    @property
    def has_full_vectors(self) -> bool:
        """Whether rows are read in vectors of 16 bytes."""
        return self.vec == self.vector_elements

    @property
    def vectors_per_row(self) -> int:
        """The number of vectors of a row, at least 1."""
        return max(1, self.n // self.vec)


def make_row_view(device: Device, x: torch.Tensor, *companions: torch.Tensor, out: torch.Tensor) -> RowView:
    """Return the view of the rows of x, tensors between x and out, and out, with the widest vectors that all allow."""
    rows, strides = layouts_of(x, out, *companions)
    others = [found for found, tensor in zip(strides, companions, strict=True) if tensor.ndim == 3]
    vec = 1
    if rows.n > 1 and rows.contiguous and all(other.n == 1 for other in others):
        vec = math.gcd(rows.vector_elements, rows.alignment_difference)
        for y in others:
            vec = math.gcd(vec, rows.x_phase - y.phase, rows.x_outer - y.outer, rows.x_inner - y.inner)
    edges = (rows.x_phase | rows.n | rows.x_outer | rows.x_inner) % vec != 0
    rowwise = [found for found, tensor in zip(strides, companions, strict=True) if tensor.ndim != 2]
    pack, phases = _widest_vector(rows, out.element_size(), rowwise), (misalignment(x), misalignment(out))
    return RowView(**rows.fields, device=device, vec=vec, edges=edges, pack=pack, companions=strides, phases=phases)


def _widest_vector(rows: Rows, out_bytes: int, rowwise: list[Strides]) -> int:
    """Return the elements of the widest vector aligned in all rows of x, of ``rowwise``, and of out if it has rows."""
    if rows.n == 1 or not rows.contiguous or any(other.n != 1 for other in rowwise):
        return 1
    starts = [rows.x_outer, rows.x_inner, rows.x_phase]
    if rows.out_n:
        starts += [rows.out_outer, rows.out_inner, rows.out_phase]
    for other in rowwise:
        starts += [other.outer, other.inner, other.phase]
    size = max(rows.itemsize, out_bytes if rows.out_n else 1)
    return math.gcd(VECTOR_BYTES // size, rows.n, *starts)


def find_adjacent_columns(rows: Rows) -> Columns | None:
    """Return rows as columns of a matrix, if neighbouring rows are adjacent in memory, else None."""
    c = rows.as_columns
    return c if c is not None and c.side_by_side else None


def find_vector_columns(rows: Rows) -> Columns | None:
    """Return a column-wise view if aligned vectors exactly cover the columns, else None."""
    c = find_adjacent_columns(rows)
    return c if c is not None and c.load_width > 1 else None


def column_arguments(cols: Columns) -> tuple[int, ...]:
    """Return a column kernel's integers: groups of rows, rows per group, elements per row. Then the strides of groups
    and elements, for x and for out. For an out of one element per row, the last is the stride between rows."""
    return cols.outer, cols.inner, cols.n, cols.x_outer, cols.x_n, cols.out_outer, cols.out_n or cols.out_inner


@dataclass(frozen=True)
class Tiling:
    """How one block covers rows. ``lanes``, ``rows`` and ``vec`` are powers of two."""

    lanes: int
    """Threads per row."""
    rows: int
    """Rows side by side in a block. If ``across`` and lanes > 1, at most a warp. Otherwise 1 if lanes exceed a warp."""
    tiles: int
    """How many vectors of ``vec`` elements of a row a thread loads at once."""
    vec: int
    edges: bool = False  # whether rows may begin or end off a vector's boundary
    across: bool = False  # whether neighbouring threads belong to neighbouring rows
    stack: int = 1  # rows per thread, all of which it loads at once
    flexible: bool = False  # whether each launch sets the threads per row, at most ``lanes``
    held: bool = False  # whether lanes read a row at once, and keep it in registers
    blocks: int = 1  # how many blocks must fit on an SM
    exact: bool = False  # whether exponentials are added as integers
    unsigned: bool = False  # whether thread numbers are unsigned, for faster division

    @property
    def threads(self) -> int:
        return self.lanes * self.rows

    @property
    def read_size(self) -> int:
        """Elements of a row that a thread reads at once."""
        return self.tiles * self.vec

    def register_type(self, dtype: str) -> Any:
        """Return the type of a register: an element, or two packed halves."""
        return register_type(dtype, self.vec)

    def registers(self, dtype: str) -> int:
        """Return the number of registers for ``read_size`` elements."""
        return self.read_size // 2 if is_packed(dtype, self.vec) else self.read_size

    @property
    def scratch(self) -> int:
        """Elements of shared memory that a reduction needs."""
        return max(self.threads // WARP, 1) * (self.rows if self.across else 1)

    def spread_over(self, rows: int, blocks: int) -> Tiling:
        """Return a tiling with fewer rows per thread if there would be fewer than ``blocks`` blocks."""
        stack = self.stack
        while stack > 1 and rows < self.rows * stack * blocks:
            stack //= 2
        return replace(self, stack=stack)

    def count_lanes(self, n: int) -> int:
        """Return the threads for a row of n elements: ``lanes``, or, if ``flexible``, no more warps than needed."""
        return min(self.lanes, cdiv(max(1, n // self.vec), self.tiles * WARP) * WARP) if self.flexible else self.lanes


def one_row_tiling(v: RowView, lanes: int, tiles: int) -> Tiling:
    """Return a tiling of one row per block. Each launch sets the threads per row, at most ``lanes``."""
    return Tiling(lanes, 1, tiles, v.vec, v.edges, flexible=True, exact=v.exact)


def strided_tiling(v: RowView, threads: int, tiles: int) -> Tiling:
    """Return a tiling of strided rows, with up to 32 neighbouring rows per block."""
    rows = min(WARP, next_power_of_two(v.evenly_spaced_rows))
    return Tiling(threads // rows, rows, tiles, 1, across=True)


def column_tiling(v: RowView, size: int) -> Tiling | None:
    """Return a tiling of up to 512 threads that keep strided rows in registers, or None if they don't fit. A block has
    up to 32 neighbouring rows. If rows are long, it has fewer, but at least 32 bytes of them."""
    size = size * 4 // max(v.itemsize, 4)
    rows = min(WARP, next_power_of_two(v.evenly_spaced_rows))
    while rows * v.itemsize > 32 and cdiv(v.n, 512 // rows) > size:
        rows //= 2
    lanes = min(max(next_power_of_two(cdiv(v.n, size)), 128 // rows), 512 // rows)
    tiles = cdiv(v.n, lanes)
    return Tiling(lanes, rows, tiles, 1, across=True) if tiles <= 2 * size else None


def streaming_tiling(v: RowView, size: int, tiles: int) -> Tiling:
    """Return a tiling of up to 512 threads per row of any length. A thread loads ``tiles`` vectors at once, or ``size``
    elements in narrower vectors. Strided rows have half as many, because each element has its own address."""
    if v.is_strided:
        rows = min(WARP, next_power_of_two(v.evenly_spaced_rows))
        return strided_tiling(v, 512, min(size // 2, next_power_of_two(cdiv(v.n * rows, 512))))
    return one_row_tiling(v, 512, tiles if v.has_full_vectors else max(1, size // v.vec))


def warp_row_layout(v: RowView, *, deep: bool = False) -> tuple[int, int, int]:
    """Return ``(vec, lanes, tiles)`` for a row that a warp processes. A row of up to 64 vectors has half a warp,
    because fewer lanes need fewer shuffles. ``deep``: whether a lane has at least four vectors."""
    vec = 1 if v.edges and v.n < 4 * v.vec else v.vec  # too short for aligned vectors: single elements
    vectors = max(1, v.n // vec)
    lanes = min(next_power_of_two(vectors), 16 if vectors <= 64 and vec > 1 else WARP)
    if deep and vec > 1:
        lanes = min(next_power_of_two(cdiv(vectors, 4)), WARP)
    if v.edges and vec > 1:
        lanes = max(lanes, min(2 * vec, WARP))  # one lane per edge element
    return vec, lanes, next_power_of_two(cdiv(vectors, lanes))


def short_row_tiling(v: RowView, inputs: int = 1) -> Tiling | None:
    """Return a tiling of up to a warp per row, in blocks of 128 threads, or None for longer rows. A thread loads about
    four vectors at once, of all inputs and rows together. It loads up to eight if a row needs them."""
    size = 16 // inputs * 4 // max(v.itemsize, 4)
    if v.is_strided:  # one thread per row: a warp's threads already read neighbours in memory
        stack = max(1, size // inputs // next_power_of_two(v.n))
        return Tiling(1, 256, v.n, 1, across=True, stack=stack) if v.n <= 2 * size // inputs else None
    double = v.dtype == "float64" and inputs == 1
    vec, lanes, tiles = warp_row_layout(v, deep=double)
    deep, most = 4 // inputs if vec * v.itemsize == VECTOR_BYTES else max(1, size // vec), 2
    if double and vec > 1:
        deep, most = 8, 1
    elif v.dtype != "float64":
        most = 2 * inputs
    if tiles > most * deep:
        return None
    return Tiling(lanes, 128 // lanes, tiles, vec, v.edges and vec > 1, stack=max(1, deep // tiles), exact=v.exact)


def most_vectors_per_thread(v: RowView) -> int:
    """Return the most vectors per thread of each input of a gradient: eight, or as many bytes in narrower vectors.
    Single elements are half as many, because each has its own address."""
    return 8 if v.has_full_vectors else max(1, (16 if v.vec == 1 else 32) // v.vec // (2 if v.itemsize == 8 else 1))


def whole_row_tiling(v: RowView, *blocks: tuple[int, int]) -> Tiling | None:
    """Return a tiling for a gradient that keeps a row in a block's registers; None for longer rows. ``blocks``: pairs
    (threads, divisor) to try in turn. A thread then has ``most_vectors_per_thread`` vectors, divided by the divisor."""
    if v.is_strided:
        return column_tiling(v, 8)
    shapes = [(64, 1), (64, 2), *((threads, max(1, most_vectors_per_thread(v) // part)) for threads, part in blocks)]
    return next((one_row_tiling(v, *shape) for shape in shapes if v.vectors_per_row <= math.prod(shape)), None)
