"""A program's share of a row, in registers: how it is loaded and stored, where several programs take a row.

A program holds its share of a row as [THREADS, PACKS, VECTOR]: each thread has packs of 16 bytes, neighbours in memory
go to neighbouring threads, and what is reduced along the last two axes asks no other thread. It is loaded and stored as
one line of memory, from which the compiler can make no other layout.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import edge_columns, whole_vectors


@triton.jit
def part_of(parts, span, blocks, THREADS: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr):
    """(part, groups, begin, end, kept): a program's part of each row, how many rows are in hand, where the part begins
    and ends, and where that begins which is held, behind blocks."""
    part, groups = tl.program_id(0) % parts, tl.num_programs(0) // parts
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    return part, groups, begin, end, begin + tl.cast(blocks, tl.int64) * (BLOCK * THREADS * VECTOR)


@triton.jit
def part_edges(start, n, part, EDGES: tl.constexpr, THREADS: tl.constexpr):
    """(inside, edge, known): elements of a row's whole vectors; columns of its edges, which are the first part's."""
    if EDGES:
        thread = tl.arange(0, THREADS)
        before, inside = whole_vectors(start, n, EDGES)
        edge, known = edge_columns(thread, before, inside, n, EDGES)
        known = known & (thread < 2 * EDGES) & (part == 0)
    else:  # no edges
        inside, edge, known = n, start, part == 0
    return inside, edge, known


@triton.jit
def load_share(
    x, start, x_n, length, NOTHING: tl.constexpr, empty,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """The first length elements from start: numbers, or words of two halves; NOTHING, or the word empty, elsewhere."""
    if PACKED:
        words = tl.arange(0, THREADS * PACKS * VECTOR // 2)
        here = (x + start).to(tl.pointer_type(tl.int32), bitcast=True) + words
        line = tl.load(here, words < length // 8 * 4, other=empty)
        share = tl.permute(tl.reshape(line, [PACKS, THREADS, VECTOR // 2]), (1, 0, 2))
    else:
        cols = tl.arange(0, THREADS * PACKS * VECTOR)
        line = tl.load(x + start + cols.to(tl.int64) * x_n, cols < length, other=NOTHING)
        share = tl.permute(tl.reshape(line, [PACKS, THREADS, VECTOR]), (1, 0, 2))
    return share


@triton.jit
def in_two(share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr):
    """The first and the second half of each thread's packs."""
    return tl.split(tl.permute(tl.reshape(share, [THREADS, 2, PACKS // 2, VECTOR]), (0, 2, 3, 1)))


@triton.jit
def store_numbers(
    out, out_n, length, share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Write the first length of a share's numbers."""
    line = tl.reshape(tl.permute(share.to(out.dtype.element_ty), (1, 0, 2)), [PACKS * THREADS * VECTOR])
    cols = tl.arange(0, PACKS * THREADS * VECTOR)
    tl.store(out + cols.to(tl.int64) * out_n, line, cols < length)


@triton.jit
def store_halves(
    out, length, low, high, FIRST: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Write numbers for both halves of words, the packs from FIRST on of a share. length counts elements from the
    share's first."""
    DTYPE: tl.constexpr = out.dtype.element_ty
    result = tl.join(low.to(DTYPE), high.to(DTYPE))
    line = tl.reshape(tl.permute(result, (1, 0, 2, 3)), [PACKS * THREADS * VECTOR])
    cols = tl.arange(0, PACKS * THREADS * VECTOR)
    first: tl.constexpr = FIRST * THREADS * VECTOR
    tl.store(out + first + cols, line, cols < length - first)


@triton.jit
def columns_left(inside, start, COLS: tl.constexpr):
    """How many of COLS columns from start lie inside a row, as int32."""
    return tl.maximum(tl.minimum(inside - start, COLS), 0).to(tl.int32)
