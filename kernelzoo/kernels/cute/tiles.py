"""How the threads of a block share rows. This module chooses it for every kernel.

A tile is what a thread block reads at once: some elements of some rows. A thread has several vectors of it, at equal
distances along its rows. Elements of a vector are adjacent in memory. If rows lie along memory, a vector has elements
of one row. If rows lie across memory, they are columns: a vector has one element of each of several adjacent rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.cut import BlockSplit, plan_split
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.layout import Layout, Strides, cdiv, layouts_of, next_power_of_two

WARP = 32
"""Threads per warp."""

SHIFTED_VECTORS = 16
"""Vectors per row, at least, for an unaligned row to be read by complete vectors except at its ends."""

HELD_BYTES = 256
"""Bytes of widened elements per thread: 64 registers. In a block of 512 threads, a thread has 128."""

MOST_THREADS = 512
"""Threads per block, at most. They may have 128 registers each."""

FAR = 2**30
"""Elements per row, or rows, at least, for 64-bit indices. In a last tile, an index may go past the end."""


@dataclass(frozen=True)
class Problem:
    """The rows, as kernels number them. Row r is row r % rows_per_group of group r // rows_per_group."""

    rows: Layout
    across: bool
    strides: tuple[Strides, ...]
    """The strides of each tensor: between groups of rows, along a row, and between rows of a group."""

    @property
    def row_length(self) -> int:
        return self.rows.n

    @property
    def row_count(self) -> int:
        return self.rows.outer * self.rows.inner

    @property
    def planned_row_count(self) -> int:
        return self.rows.planned

    @property
    def rows_per_group(self) -> int:
        """The number of rows per group."""
        return self.rows.inner if self.has_row_groups else self.row_count

    @property
    def has_row_groups(self) -> bool:
        """Whether there are several groups, of several rows each."""
        return self.rows.outer > 1 and self.rows.inner > 1

    def elements_per_vector(self) -> int:
        """Return the number of elements per vector: the most with which the first tensor can be read."""
        whole = self.rows.vector_elements
        return whole if self.has_partial_vectors else self._aligned_elements_per_vector()

    def _aligned_elements_per_vector(self) -> int:
        """Return the most elements per vector such that every row begins and ends with a complete vector."""
        whole = self.rows.vector_elements
        return next(width for width in (16, 8, 4, 2, 1) if width <= whole and (width == 1 or self.vectorized(0, width)))

    @property
    def has_partial_vectors(self) -> bool:
        """Whether rows lie along memory, may be unaligned, and start at the same offset in a vector in all tensors. So
        each row has incomplete vectors only at its ends."""
        whole = self.rows.vector_elements
        if self.across or self.rows.n < SHIFTED_VECTORS * whole or self._aligned_elements_per_vector() == whole:
            return False
        first, *_ = self.strides
        along = [one for one in self.strides if one.n]
        apart = [(one.outer - first.outer) % whole or (one.inner - first.inner) % whole for one in along]
        return all(one.n == 1 and one.phase % whole == 0 for one in along) and not any(apart)

    @property
    def padded_length(self) -> int:
        """Elements of the vectors that cover a row, at most. An unaligned row doesn't fill its end vectors."""
        return self.rows.n + (self.rows.vector_elements - 1 if self.has_partial_vectors else 0)

    def vectorized(self, tensor: int, width: int) -> bool:
        """Return whether a tensor can be loaded and stored in complete, aligned vectors of ``width`` elements."""
        group, n, row, phase = self.strides[tensor]
        beside, apart, count = (row, n, self.rows_per_group) if self.across else (n, row, self.rows.n)
        return beside == 1 and not any(number % width for number in (group, apart, count, phase))


def make_problem(x: torch.Tensor, out: torch.Tensor, *middle: torch.Tensor) -> Problem:
    """Return the problem of a launch. ``middle``: the tensors between the first and the output."""
    rows, others = layouts_of(x, out, *middle)
    first = Strides(rows.x_outer, rows.x_n, rows.x_inner, rows.x_phase)
    last = Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase)
    tensors = (first, *others, last)
    if rows.inner == 1:
        tensors = tuple(one._replace(outer=0, inner=one.outer) for one in tensors)
    return Problem(rows, rows.as_columns is not None, tensors)


@dataclass(frozen=True)
class Tile:
    """A tile, with all properties of a problem for which its kernel is compiled."""

    dtype: str
    """The dtype of the elements, by torch's name."""
    across: bool
    threads: int
    """Threads per block."""
    lanes: int
    """Threads per row, a power of two."""
    vector: int
    """Elements per vector."""
    each: int
    """Vectors per thread."""
    single: bool
    """Whether a row has no more than one block, a tile's range of the row."""
    whole: bool
    """Whether a row's length is a multiple of the tile's."""
    full: bool
    """Whether the last tile has no rows past the end."""
    has_row_groups: bool
    """Whether rows are in groups. If so, a row's address takes a division."""
    far: bool
    """Whether indices of rows and of elements have 64 bits."""
    has_partial_vectors: bool
    """Whether rows may start and end inside a vector."""
    vectorized: tuple[bool, ...]
    """Whether each tensor is loaded and stored in complete vectors."""
    dense: tuple[bool, ...]
    """Whether each tensor's rows are contiguous."""

    @property
    def threads_across_rows(self) -> int:
        """The number of threads in a block that have different rows. The others share these rows."""
        return self.threads // self.lanes

    @property
    def rows_per_thread(self) -> int:
        """Rows per thread."""
        return self.vector if self.across else 1

    @property
    def row_elements_per_vector(self) -> int:
        """A vector's number of elements in one row: all, or 1 if rows are columns."""
        return 1 if self.across else self.vector

    @property
    def vector_stride(self) -> int:
        """The distance along a row between a thread's vectors, in elements."""
        return self.lanes * self.row_elements_per_vector

    @property
    def block_length(self) -> int:
        """Elements of each row in the tile."""
        return self.vector_stride * self.each

    @property
    def rows(self) -> int:
        return self.threads_across_rows * self.rows_per_thread

    @property
    def tiler(self) -> tuple[int, int]:
        """The shape of the tile: rows x elements."""
        return self.rows, self.block_length

    def count_tiles(self, total: int) -> int:
        """Return the number of tiles that cover ``total`` rows."""
        return cdiv(total, self.rows)

    @cached_property
    def shuffle_masks(self) -> tuple[int, ...]:
        """The XOR masks of shuffles in a butterfly, over the lanes of a warp that share a row."""
        low, high = (self.threads_across_rows, WARP) if self.across else (1, min(self.lanes, WARP))
        return tuple(1 << bit for bit in range(5) if low <= 1 << bit < high)

    @property
    def row_lanes(self) -> int:
        """The number of threads of one warp that share a row."""
        return 1 << len(self.shuffle_masks)

    @property
    def row_warps(self) -> int:
        """The number of warps that share a row. They merge their values in shared memory."""
        return self.lanes // self.row_lanes

    @property
    def inspected_fields(self) -> dict[str, Any]:
        """The fields that ``kernelzoo inspect`` shows, by name."""
        return {name: getattr(self, name) for name in ("threads", "lanes", "vector", "each", "across")}


def make_tile(problem: Problem, threads: int, lanes: int, vector: int, vectors_per_thread: int) -> Tile:
    dense, partial = tuple(one.n == 1 for one in problem.strides), problem.has_partial_vectors and vector > 1
    step, rows_per_thread = (1, vector) if problem.across else (vector, 1)
    block, rows = lanes * step * vectors_per_thread, threads // lanes * rows_per_thread
    return Tile(
        *(problem.rows.dtype, problem.across, threads, lanes, vector, vectors_per_thread),
        single=problem.padded_length <= block,
        whole=not problem.has_partial_vectors and problem.row_length > 0 and problem.row_length % block == 0,
        full=problem.row_count % rows == 0 and (rows == 1 or problem.planned_row_count == problem.row_count),
        has_row_groups=problem.has_row_groups,
        far=max(problem.row_length, problem.row_count) >= FAR,
        has_partial_vectors=partial,
        vectorized=tuple(
            (vector > 1 and problem.vectorized(i, vector)) or (partial and one) for i, one in enumerate(dense)
        ),
        dense=dense,
    )


def max_thread_vectors(problem: Problem, vector: int, inputs: int, register_bytes: int = HELD_BYTES) -> int:
    """Return how many vectors of each of ``inputs`` tensors fit in a thread's registers."""
    return max(1, register_bytes // problem.rows.accumulator_bytes // vector // inputs)


SHORT_THREADS = 128
"""Threads per block of short rows. A short row has at most one warp."""

SHORT_VECTORS = 4
"""Vectors of a short row per thread, at most."""

SHORT_ELEMENTS, READ_ELEMENTS = 4, 8
"""Elements of a short row without vectors per thread, at least; it has less than twice as many. The second number is
for kernels whose results take no registers."""

STRIP_THREADS = 256
"""Threads per block of columns, unless long columns need more."""

STRIPS = (
    (LINE_BYTES, STRIP_THREADS),
    (LINE_BYTES, MOST_THREADS),
    (LINE_BYTES // 2, MOST_THREADS),
    (LINE_BYTES // 4, MOST_THREADS),
)
"""(bytes across, threads) of strips of columns. Longer columns take more threads, then half a line, then a sector."""


def _threads_per_column(problem: Problem, vector: int, strip_bytes: int, threads: int) -> int:
    """Return the threads per column, in a strip of columns ``strip_bytes`` wide. Few elements take fewer threads."""
    most = next_power_of_two(cdiv(problem.row_count, vector))
    beside = min(max(1, strip_bytes // (vector * problem.rows.itemsize)), most)
    return min(threads // min(beside, WARP), next_power_of_two(problem.row_length))


def longest_row(problem: Problem, inputs: int) -> int:
    """Return the length of the longest row that fits in a block's registers, for columns in the narrowest strip."""
    vector = problem.elements_per_vector()
    most = max_thread_vectors(problem, vector, inputs)
    if problem.across:
        return _threads_per_column(problem, vector, *STRIPS[-1]) * most
    return MOST_THREADS * most * vector - (problem.padded_length - problem.row_length)


def register_tile(id: str, problem: Problem, inputs: int) -> Tile:
    """Return a tile of complete rows in a block's registers: several short rows, one row, or a strip of columns.
    ``inputs``: the number of tensors with n elements per row. Raises UnsupportedProblemError if a row doesn't fit."""
    if problem.row_length > (longest := longest_row(problem, inputs)):
        words = f"a row must fit on chip, {longest} of {problem.rows.dtype} laid out so; got {problem.row_length}"
        raise UnsupportedProblemError(id, words)
    return _register_tile(problem, inputs)


def _register_tile(problem: Problem, inputs: int) -> Tile:
    vector = problem.elements_per_vector()
    most = max_thread_vectors(problem, vector, inputs)
    if problem.across:
        found = ((threads, _threads_per_column(problem, vector, bytes, threads)) for bytes, threads in STRIPS)
        threads, lanes = next((threads, lanes) for threads, lanes in found if cdiv(problem.row_length, lanes) <= most)
        return make_tile(problem, threads, lanes, vector, cdiv(problem.row_length, lanes))
    if (short := short_rows_tile(problem, inputs, SHORT_ELEMENTS)) is not None:
        return short
    vectors = cdiv(problem.padded_length, vector)
    usual = min(most, max(4, 8 // vector))
    threads = min(MOST_THREADS, max(WARP, next_power_of_two(cdiv(vectors, usual))))
    return make_tile(problem, threads, threads, vector, cdiv(vectors, threads))


def short_rows_tile(problem: Problem, inputs: int, min_elements: int) -> Tile | None:
    """Return a tile of several short rows. Return None if a row needs more than a warp, or if rows are columns. If
    vectors have one element, a thread has at least ``min_elements`` elements."""
    vector = problem.elements_per_vector()
    vectors = cdiv(problem.padded_length, vector)
    if problem.across or vectors > WARP * SHORT_VECTORS or problem.planned_row_count < 2:
        return None
    most = max_thread_vectors(problem, vector, inputs)
    usual = min(most, min_elements if vector == 1 else max(2, 4 // vector))
    lanes = min(WARP, next_power_of_two(cdiv(vectors, usual)))
    if vector == 1 and cdiv(vectors, usual) < lanes and cdiv(vectors, lanes // 2) <= most:
        lanes //= 2
    return make_tile(problem, SHORT_THREADS, lanes, vector, cdiv(vectors, lanes))


def long_row_tile(problem: Problem, inputs: int = 1) -> Tile:
    """Return a tile for kernels that read rows block by block: 64 bytes of each input per thread."""
    vector = problem.elements_per_vector()
    if problem.across:
        lanes = _threads_per_column(problem, vector, LINE_BYTES, STRIP_THREADS)
        each = min(max(1, 4 // inputs), cdiv(problem.row_length, lanes))
        return make_tile(problem, STRIP_THREADS, lanes, vector, each)
    vectors = cdiv(problem.padded_length, vector)
    lanes = min(STRIP_THREADS, max(WARP, next_power_of_two(cdiv(vectors, 4))))
    most = max_thread_vectors(problem, vector, inputs, 128)
    each = min(most, max(4, 8 // vector) // inputs or 1, cdiv(vectors, lanes))
    return make_tile(problem, lanes, lanes, vector, each)


def blockwise_tile(problem: Problem, inputs: int = 1, min_elements: int = SHORT_ELEMENTS) -> Tile:
    """Return a tile for kernels that read rows block by block: short rows, one row, or a strip of columns."""
    if problem.row_length == 0:  # nothing is read
        return make_tile(problem, WARP, WARP, 1, 1)
    return short_rows_tile(problem, inputs, min_elements) or long_row_tile(problem, inputs)


def read_once_tile(problem: Problem, inputs: int = 2) -> Tile:
    """Return a tile of complete rows if they fit in a block's registers and are read once; else ``blockwise_tile``."""
    return (
        _register_tile(problem, inputs)
        if 0 < problem.row_length <= longest_row(problem, inputs)
        else blockwise_tile(problem, inputs)
    )


def sum_over_rows_tile(problem: Problem) -> Tile:
    """Return a tile for sums over all rows. A thread has one element; adjacent threads have adjacent elements."""
    return make_tile(problem, STRIP_THREADS, STRIP_THREADS // WARP if problem.across else WARP, 1, 1)


def count_row_parts(problem: Problem, tile: Tile, device: Device) -> BlockSplit:
    """Return into how many parts to split each row of a tile, and how many blocks of elements a part has."""
    blocks = max(1, cdiv(problem.padded_length, tile.block_length))
    return plan_split(blocks, tile.count_tiles(problem.planned_row_count), tile.rows * problem.row_length, device)


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the accumulator's dtype: float32 for half precision."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
