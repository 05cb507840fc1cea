"""Device functions that load and store a program's share of a row, if several programs share the row.

A share is a tile [THREADS, PACKS, VECTOR] in registers. A pack has 16 bytes. Packs that are adjacent in memory belong
to adjacent threads. A reduction over the last two axes stays within a thread. Loads and stores use a one-dimensional
tile, so that the compiler can choose no other layout.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import head_and_body, head_and_tail


@triton.jit
def locate_part_and_held_columns(parts, span, blocks, THREADS: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr):
    """Return (part number, rows that are processed at once, begin and end of the part, where its held columns begin).
    Held columns stay in registers. Columns before them are read in blocks."""
    part, groups = tl.program_id(0) % parts, tl.num_programs(0) // parts
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    return part, groups, begin, end, begin + tl.cast(blocks, tl.int64) * (BLOCK * THREADS * VECTOR)


@triton.jit
def locate_part_body_and_edges(start, n, part, EDGES: tl.constexpr, THREADS: tl.constexpr):
    """Return (elements in complete vectors, columns and mask of elements outside). Part 0 has those outside."""
    if EDGES:
        thread = tl.arange(0, THREADS)
        before, inside = head_and_body(start, n, EDGES)
        edge, known = head_and_tail(thread, before, inside, n, EDGES)
        known = known & (thread < 2 * EDGES) & (part == 0)
    else:  # no edges
        inside, edge, known = n, start, part == 0
    return inside, edge, known


@triton.jit
def load_packs(
    x, start, x_n, length, PADDING: tl.constexpr, padding_word,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Load ``length`` elements, as packs per thread, and pad. If PACKED, load 32-bit words of two elements each."""
    if PACKED:
        words = tl.arange(0, THREADS * PACKS * VECTOR // 2)
        here = (x + start).to(tl.pointer_type(tl.int32), bitcast=True) + words
        line = tl.load(here, words < length // 8 * 4, other=padding_word)
        share = tl.permute(tl.reshape(line, [PACKS, THREADS, VECTOR // 2]), (1, 0, 2))
    else:
        cols = tl.arange(0, THREADS * PACKS * VECTOR)
        line = tl.load(x + start + cols.to(tl.int64) * x_n, cols < length, other=PADDING)
        share = tl.permute(tl.reshape(line, [PACKS, THREADS, VECTOR]), (1, 0, 2))
    return share


@triton.jit
def split_packs_in_two(share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr):
    """Return two shares: the first half and the second half of each thread's 16-byte packs."""
    return tl.split(tl.permute(tl.reshape(share, [THREADS, 2, PACKS // 2, VECTOR]), (0, 2, 3, 1)))


@triton.jit
def store_packs(
    out, out_n, length, share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Store the first ``length`` numbers of a share, which has PACKS packs of VECTOR numbers per thread."""
    line = tl.reshape(tl.permute(share.to(out.dtype.element_ty), (1, 0, 2)), [PACKS * THREADS * VECTOR])
    cols = tl.arange(0, PACKS * THREADS * VECTOR)
    tl.store(out + cols.to(tl.int64) * out_n, line, cols < length)


@triton.jit
def store_halves(
    out, length, low, high, FIRST: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Store words' low and high halves in turn, from 16-byte pack FIRST on. ``length`` includes earlier packs."""
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
