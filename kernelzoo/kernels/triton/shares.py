"""Device functions that load and store a program's share of a row, if several programs share the row.

A share is a tile [THREADS, PACKS, VECTOR] in registers. A pack has 16 bytes. Packs that are adjacent in memory belong
to adjacent threads. A reduction over the last two axes stays within a thread. Loads and stores use a one-dimensional
tile, so that the compiler can choose no other layout.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import edge_columns, whole_vectors


@triton.jit
def program_part(parts, span, blocks, THREADS: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr):
    """Return (part number, number of rows in progress, begin, end and ``kept`` of the program's part). Columns from
    ``kept`` on stay in registers. Columns before ``kept`` are read in blocks."""
    part, groups = tl.program_id(0) % parts, tl.num_programs(0) // parts
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    return part, groups, begin, end, begin + tl.cast(blocks, tl.int64) * (BLOCK * THREADS * VECTOR)


@triton.jit
def part_edges(start, n, part, EDGES: tl.constexpr, THREADS: tl.constexpr):
    """Return (elements in complete vectors, columns and mask of the edge elements). The first part has the edges."""
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
    """Load ``length`` elements at ``start``. Pad with NOTHING or, if PACKED, pad words of halves with ``empty``."""
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
def halve_packs(share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr):
    """Return two shares: the first half and the second half of each thread's 16-byte packs."""
    return tl.split(tl.permute(tl.reshape(share, [THREADS, 2, PACKS // 2, VECTOR]), (0, 2, 3, 1)))


@triton.jit
def store_numbers(
    out, out_n, length, share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Store the first ``length`` numbers of a share."""
    line = tl.reshape(tl.permute(share.to(out.dtype.element_ty), (1, 0, 2)), [PACKS * THREADS * VECTOR])
    cols = tl.arange(0, PACKS * THREADS * VECTOR)
    tl.store(out + cols.to(tl.int64) * out_n, line, cols < length)


@triton.jit
def store_halves(
    out, length, low, high, FIRST: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Interleave words' low and high halves. Store 16-byte packs from FIRST on. ``length`` counts from pack 0."""
    DTYPE: tl.constexpr = out.dtype.element_ty
    result = tl.join(low.to(DTYPE), high.to(DTYPE))
    line = tl.reshape(tl.permute(result, (1, 0, 2, 3)), [PACKS * THREADS * VECTOR])
    cols = tl.arange(0, PACKS * THREADS * VECTOR)
    first: tl.constexpr = FIRST * THREADS * VECTOR
    tl.store(out + first + cols, line, cols < length - first)


@triton.jit
def count_columns_left(inside, start, COLS: tl.constexpr):
    """Return how many of the COLS columns from ``start`` on are inside a row, as int32."""
    return tl.maximum(tl.minimum(inside - start, COLS), 0).to(tl.int32)
