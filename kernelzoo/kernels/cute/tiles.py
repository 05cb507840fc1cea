"""How rows lie on the threads of a block: chosen here, for every kernel.

A tile is what a block has at a time: rows side by side, and of each some elements. A thread has a vector of
neighbours in memory, and more of them further along its rows. Where rows lie along memory, a vector is elements of one
row; where they lie across it, one element of each of several rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.cut import Cut, cut
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.layout import Layout, Strides, cdiv, power_of_two, rows_with

WARP = 32
"""Threads of a warp."""

SHIFTED_VECTORS = 16
"""Of a row, from which on it is read by whole vectors inside though it starts anywhere."""

HELD_BYTES = 256
"""Of elements as computed, in registers of a thread: 64 of its 128 where a block has 512 threads."""

MOST_THREADS = 512
"""In a block, which may have 128 registers each then."""

FAR = 2**30
"""Elements of a row, or rows, from which on their numbers are 64-bit: what a tile has past an end is counted too."""


@dataclass(frozen=True)
class Problem:
    """Rows as kernels number them. Row r is number r % inner of group r // inner, of total in all."""

    rows: Layout
    across: bool
    strides: tuple[Strides, ...]
    """Of each tensor: from group to group of rows, along a row, from a row to its neighbour."""

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def total(self) -> int:
        return self.rows.outer * self.rows.inner

    @property
    def planned(self) -> int:
        return self.rows.planned

    @property
    def inner(self) -> int:
        """Rows of a group."""
        return self.rows.inner if self.grouped else self.total

    @property
    def grouped(self) -> bool:
        """Whether there is more than one group of more than one row."""
        return self.rows.outer > 1 and self.rows.inner > 1

    def vector(self) -> int:
        """Elements of the longest vectors in which the first tensor can be read."""
        whole = self.rows.whole_vector
        return whole if self.shifted else self._aligned()

    def _aligned(self) -> int:
        """The same where every row begins with a vector, and ends with one."""
        whole = self.rows.whole_vector
        return next(width for width in (16, 8, 4, 2, 1) if width <= whole and (width == 1 or self.moves(0, width)))

    @property
    def shifted(self) -> bool:
        """Whether rows along memory start and end anywhere, but in all tensors at the same place of a vector. Whole
        vectors lie inside of each then, and parts of vectors at its ends."""
        whole = self.rows.whole_vector
        if self.across or self.rows.n < SHIFTED_VECTORS * whole or self._aligned() == whole:
            return False
        first, *_ = self.strides
        along = [one for one in self.strides if one.n]
        apart = [(one.outer - first.outer) % whole or (one.inner - first.inner) % whole for one in along]
        return all(one.n == 1 and one.phase % whole == 0 for one in along) and not any(apart)

    @property
    def room(self) -> int:
        """Elements that vectors of a row cover, at the most."""
        return self.rows.n + (self.rows.whole_vector - 1 if self.shifted else 0)

    def moves(self, tensor: int, width: int) -> bool:
        """Whether a tensor's elements lie in whole, aligned vectors of so many."""
        group, n, row, phase = self.strides[tensor]
        beside, apart, count = (row, n, self.inner) if self.across else (n, row, self.rows.n)
        return beside == 1 and not any(number % width for number in (group, apart, count, phase))


def problem(x: torch.Tensor, out: torch.Tensor, *beside: torch.Tensor) -> Problem:
    """The problem of a launch. beside: the tensors between the first and the output."""
    rows, others = rows_with(x, out, *beside)
    first = Strides(rows.x_outer, rows.x_n, rows.x_inner, rows.x_phase)
    last = Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase)
    tensors = (first, *others, last)
    if rows.inner == 1:
        tensors = tuple(one._replace(outer=0, inner=one.outer) for one in tensors)
    return Problem(rows, rows.columns is not None, tensors)


@dataclass(frozen=True)
class Tile:
    """A tile as its kernel is compiled for it."""

    dtype: str
    """Of the elements, by torch's name."""
    across: bool
    threads: int
    """Of a block."""
    lanes: int
    """Threads that share a row, a power of two."""
    vector: int
    """Elements of a vector."""
    each: int
    """Vectors that a thread has at a time."""
    single: bool
    """Whether a row has no more than one block."""
    whole: bool
    """Whether rows end with a tile."""
    full: bool
    """Whether the last block has all its rows."""
    grouped: bool
    """Whether rows are in groups: a row's place takes a division then."""
    far: bool
    """Whether rows, and elements of one, are counted in 64 bits."""
    shifted: bool
    """Whether a row starts anywhere in a thread's vector, and ends so."""
    moves: tuple[bool, ...]
    """Of each tensor, whether it moves whole vectors."""
    dense: tuple[bool, ...]
    """Of each tensor, whether elements of a row lie side by side."""

    @property
    def places(self) -> int:
        """Threads side by side across rows."""
        return self.threads // self.lanes

    @property
    def rows_each(self) -> int:
        """Rows of a thread."""
        return self.vector if self.across else 1

    @property
    def step(self) -> int:
        """Elements of a row in a vector."""
        return 1 if self.across else self.vector

    @property
    def stride(self) -> int:
        """Elements of a row from a thread's vector to its next one."""
        return self.lanes * self.step

    @property
    def block(self) -> int:
        """Elements of each row in the tile."""
        return self.stride * self.each

    @property
    def rows(self) -> int:
        return self.places * self.rows_each

    @property
    def tiler(self) -> tuple[int, int]:
        """Rows and elements of each."""
        return self.rows, self.block

    def count(self, total: int) -> int:
        """Tiles that it takes to cover so many rows."""
        return cdiv(total, self.rows)

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """By which lanes of a warp that share a row differ, for a butterfly of shuffles."""
        low, high = (self.places, WARP) if self.across else (1, min(self.lanes, WARP))
        return tuple(1 << bit for bit in range(5) if low <= 1 << bit < high)

    @property
    def together(self) -> int:
        """Threads of one warp that share a row."""
        return 1 << len(self.masks)

    @property
    def meeting(self) -> int:
        """Parties of such threads that meet in shared memory."""
        return self.lanes // self.together

    @property
    def shown(self) -> dict[str, Any]:
        """What is to be said of it."""
        return {name: getattr(self, name) for name in ("threads", "lanes", "vector", "each", "across")}


def tile(given: Problem, threads: int, lanes: int, vector: int, each: int) -> Tile:
    tensors, dense = range(len(given.strides)), tuple(one.n == 1 for one in given.strides)
    step, rows_each = (1, vector) if given.across else (vector, 1)
    block, rows = lanes * step * each, threads // lanes * rows_each
    return Tile(
        *(given.rows.dtype, given.across, threads, lanes, vector, each),
        single=given.room <= block,
        whole=not given.shifted and given.n > 0 and given.n % block == 0,
        full=given.total % rows == 0 and (rows == 1 or given.planned == given.total),
        grouped=given.grouped,
        far=max(given.n, given.total) >= FAR,
        shifted=given.shifted and vector > 1,
        moves=tuple(vector > 1 and (given.moves(i, vector) or (given.shifted and dense[i])) for i in tensors),
        dense=dense,
    )


def most_each(given: Problem, vector: int, inputs: int, bytes: int = HELD_BYTES) -> int:
    """Vectors, of each of so many inputs, that a thread holds at the most."""
    return max(1, bytes // given.rows.wide_bytes // vector // inputs)


SHORT_THREADS = 128
"""Of a block of short rows, each of which has no more than a warp's."""

SHORT_VECTORS = 4
"""Of a short row, to a thread."""

SHORT_ELEMENTS, READ_ELEMENTS = 4, 8
"""Of a short row that has no vectors, to a thread: so many at the least, and less than twice as many. The second where
no results take its registers."""


STRIP_THREADS = 256
"""Of a block of columns, if these are no longer than it holds."""

STRIPS = (
    (LINE_BYTES, STRIP_THREADS),
    (LINE_BYTES, MOST_THREADS),
    (LINE_BYTES // 2, MOST_THREADS),
    (LINE_BYTES // 4, MOST_THREADS),
)
"""Strips, in bytes side by side and threads: longer columns take a larger block, then half a line, then a sector."""


def _across(given: Problem, vector: int, bytes: int, threads: int) -> int:
    """Lanes along a row of a strip. What so many bytes side by side leave, and no more than there are elements."""
    beside = min(max(1, bytes // (vector * given.rows.itemsize)), power_of_two(cdiv(given.total, vector)))
    return min(threads // min(beside, WARP), power_of_two(given.n))


def longest_row(given: Problem, inputs: int) -> int:
    """Elements of the longest row that a block holds, of so many inputs. Across memory at least a sector of them."""
    vector = given.vector()
    most = most_each(given, vector, inputs)
    if given.across:
        return _across(given, vector, *STRIPS[-1]) * most
    return MOST_THREADS * most * vector - (given.room - given.n)


def held(id: str, given: Problem, inputs: int) -> Tile:
    """A tile that a block holds. Short rows side by side, one row, or of rows that lie across memory a strip. inputs:
    how many tensors of n elements a row are held. Raises UnsupportedProblemError if no block holds a row."""
    if given.n > (longest := longest_row(given, inputs)):
        words = f"a row must fit on chip, {longest} of {given.rows.dtype} laid out so; got {given.n}"
        raise UnsupportedProblemError(id, words)
    return _held(given, inputs)


def _held(given: Problem, inputs: int) -> Tile:
    vector = given.vector()
    most = most_each(given, vector, inputs)
    if given.across:
        found = ((threads, _across(given, vector, bytes, threads)) for bytes, threads in STRIPS)
        threads, lanes = next((threads, lanes) for threads, lanes in found if cdiv(given.n, lanes) <= most)
        return tile(given, threads, lanes, vector, cdiv(given.n, lanes))
    if (short := short_tile(given, inputs, SHORT_ELEMENTS)) is not None:
        return short
    vectors = cdiv(given.room, vector)
    usual = min(most, max(4, 8 // vector))
    threads = min(MOST_THREADS, max(WARP, power_of_two(cdiv(vectors, usual))))
    return tile(given, threads, threads, vector, cdiv(vectors, threads))


def short_tile(given: Problem, inputs: int, elements: int) -> Tile | None:
    """A tile of short rows side by side, None where a row is no warp's, or rows lie across memory. elements: to a
    thread, where rows have no vectors."""
    vector = given.vector()
    vectors = cdiv(given.room, vector)
    if given.across or vectors > WARP * SHORT_VECTORS or given.planned < 2:
        return None
    usual = min(most_each(given, vector, inputs), elements if vector == 1 else max(2, 4 // vector))
    lanes = min(WARP, power_of_two(cdiv(vectors, usual)))
    if vector == 1 and cdiv(vectors, usual) < lanes and cdiv(vectors, lanes // 2) <= most_each(given, 1, inputs):
        lanes //= 2
    return tile(given, SHORT_THREADS, lanes, vector, cdiv(vectors, lanes))


def block(given: Problem, inputs: int = 1) -> Tile:
    """A tile for kernels that go through rows in blocks: 64 bytes of each input to a thread."""
    vector = given.vector()
    if given.across:
        lanes = _across(given, vector, LINE_BYTES, STRIP_THREADS)
        each = min(max(1, 4 // inputs), cdiv(given.n, lanes))
        return tile(given, STRIP_THREADS, lanes, vector, each)
    vectors = cdiv(given.room, vector)
    lanes = min(STRIP_THREADS, max(WARP, power_of_two(cdiv(vectors, 4))))
    each = min(most_each(given, vector, inputs, 128), max(4, 8 // vector) // inputs or 1, cdiv(vectors, lanes))
    return tile(given, lanes, lanes, vector, each)


def plain(given: Problem, inputs: int = 1, elements: int = SHORT_ELEMENTS) -> Tile:
    """Several short rows side by side, or a block of one, or of a strip: for kernels that go through rows in blocks."""
    if given.n == 0:  # of which nothing is read
        return tile(given, WARP, WARP, 1, 1)
    return short_tile(given, inputs, elements) or block(given, inputs)


def read_once(given: Problem, inputs: int = 2) -> Tile:
    """Rows that a block holds, if it can, so that they are read once; else ``plain`` ones."""
    return _held(given, inputs) if 0 < given.n <= longest_row(given, inputs) else plain(given, inputs)


def over_rows(given: Problem) -> Tile:
    """A thread to each of some elements of some rows, neighbours in memory side by side, for sums over all rows."""
    return tile(given, STRIP_THREADS, STRIP_THREADS // WARP if given.across else WARP, 1, 1)


def parts_of(given: Problem, made: Tile, device: Device) -> Cut:
    """How several blocks take the rows of each tile."""
    blocks = max(1, cdiv(given.room, made.block))
    return cut(blocks, made.count(given.planned), made.rows * given.n, device)


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What elements are added up in: half precision in float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
