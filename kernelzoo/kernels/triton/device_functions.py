"""Device functions of several operations: where a row lies, and how its ends are read.

A row that starts or ends inside a 16-byte vector has *edges* there: fewer elements than a vector at either end of the
whole vectors in between.
"""

import triton
import triton.language as tl

INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def await_last_launch():
    """First in every kernel, before it touches memory: wait for the launch before this one to end.

    On NVIDIA from compute capability 9.0 on a launch is prepared while the one before it ends (programmatic dependent
    launch, see ``launch.compiler_options``). None lets the next begin early.
    """
    if not INTERPRETED and tl.target_info.cuda_capability_geq(9, 0):
        tl.extra.cuda.gdc_wait()


@triton.jit
def row_start(row, inner, stride_outer, stride_inner, MULTIPLE: tl.constexpr):
    """Offset of a row's first element; row in 64 bits, so that no product overflows."""
    return (row // inner * stride_outer + row % inner * stride_inner) * MULTIPLE


@triton.jit
def aligned(start, EDGES: tl.constexpr):
    """Where a row's first aligned vector begins, at its start or behind it; its start where EDGES is 0."""
    return (start + EDGES - 1) // EDGES * EDGES if EDGES else start


@triton.jit
def row_parts(start, n, in_rows, EDGES: tl.constexpr):
    """(inside, longest, edge, known): elements of rows' whole vectors and the most of them; columns of their edges."""
    if EDGES:
        before, inside = whole_vectors(start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        longest = tl.max(inside)
    else:  # no edges
        inside = n
        longest = n
        edge = start
        known = in_rows
    return inside, longest, edge, known


@triton.jit
def whole_vectors(start, n, VECTOR: tl.constexpr):
    """(before, inside): elements of a row ahead of its first aligned vector, and elements in whole vectors after."""
    before = tl.minimum((-start) & (VECTOR - 1), n)
    return before, (n - before) // VECTOR * VECTOR


@triton.jit
def edge_columns(lane, before, inside, n, VECTOR: tl.constexpr):
    """(columns, known) of the elements outside whole vectors, fewer than VECTOR at either end; 2 * VECTOR lanes."""
    cols = tl.where(lane < VECTOR, lane, before + inside + lane - VECTOR)
    return cols, tl.where(lane < VECTOR, lane < before, cols < n)


@triton.jit
def product(a, b):
    """A product that is rounded before lanes add it up. Fused with that sum, each lane would get other bits, and which
    of them is written isn't defined."""
    return tl.fma(a, b, 0.0)


@triton.jit
def add_exactly(total, lost, x):
    """(total + x, lost and what that rounded off), after Knuth (TAOCP 2, 4.2.2). Integers lose nothing."""
    new = total + x
    if total.dtype.is_floating():
        back = new - total
        lost += (total - (new - back)) + (x - back)
    return new, lost


@triton.jit
def accumulate(total, lost, x, ONE: tl.constexpr):
    """``add_exactly``, and of ONE term, of which nothing is lost, the term."""
    if ONE:
        total = x
    else:
        total, lost = add_exactly(total, lost, x)
    return total, lost


@triton.jit
def whole(total, lost):
    """A sum with what it rounded off, which is NaN where the sum is infinite."""
    return total + tl.where(lost == lost, lost, 0)


@triton.jit
def float8_bits(value):
    """float32 rounded to float8_e4m3fn, ties to even, as its bits. What is too large becomes the largest."""
    if not INTERPRETED and tl.target_info.cuda_capability_geq(8, 9):
        found = value.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        bits = value.to(tl.int32, bitcast=True)
        magnitude = bits & 0x7FFFFFFF
        normal = (magnitude - (120 << 23) + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
        # Below 2^-6 the spacing is 2^-9, that of float32 from 2^14 to 2^15: adding 2^14 rounds to it.
        small = (tl.abs(value) + 16384).to(tl.int32, bitcast=True) - (141 << 23)
        eight = tl.where(magnitude < (121 << 23), small, tl.minimum(normal, 0x7E))
        found = (tl.where(value == value, eight, 0x7F) | ((bits >> 24) & 0x80)).to(tl.uint8)
    return found
