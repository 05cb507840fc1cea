"""Words that kernels of several operations share, as device functions: where a row lies, and how its ends are read.

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
def ragged_tile(
    x, body, row, in_rows, safe, before, inside, after, WIDE: tl.constexpr, NOTHING: tl.constexpr,
    VECTOR: tl.constexpr, LANES: tl.constexpr, PACKS: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """(tile, mask, edges, own, at): rows side by side, their whole vectors as [ROWS, PACKS, LANES * VECTOR] from body,
    and the two vectors in which each begins and ends as [ROWS, 2, VECTOR] at body + at, foreign elements left out.
    POLICY is the L2 cache's for the whole vectors.

    A program has a tile, in the order of rows. Of rows from safe on, the last vector may reach past the memory: those
    edges are read one by one.
    """
    cols = tl.arange(0, LANES * VECTOR)[None, None, :]
    first = tl.arange(0, PACKS)[None, :, None] * (LANES * VECTOR)
    mask = in_rows & (cols < inside - first)
    tile = tl.load(x + body + cols + first, mask, other=NOTHING, eviction_policy=POLICY)
    side = tl.arange(0, 2)[None, :, None]
    lane = tl.arange(0, VECTOR)[None, None, :]
    at = tl.where(side == 0, -VECTOR, inside) + lane
    there = in_rows & (tl.where(side == 0, before, after) > 0)
    own = there & tl.where(side == 0, lane >= VECTOR - before, lane < after)
    whole = there & ((side == 0) | (row < safe))
    edges = tl.load(x + body + at, whole, other=NOTHING)
    if (tl.program_id(0).to(tl.int64) + 1) * row.shape[0] > safe:
        edges = tl.where(whole, edges, tl.load(x + body + at, own & ~whole, other=NOTHING))
    return tile.to(WIDE), mask, tl.where(own, edges.to(WIDE), NOTHING), own, at
