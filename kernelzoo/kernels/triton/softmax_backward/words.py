"""Words of the gradient of a softmax that its kernels share: a tile of whole rows, and a row that one program holds.

A masked element counts as 0 in both inputs, and so adds nothing. Where rows start and end inside a 16-byte vector,
EDGES is the length of one: a row is then its whole vectors, and at either end an edge of fewer elements than that. Else
EDGES is 0.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.softmax.words import READ
from kernelzoo.kernels.triton.words import edge_columns, whole_vectors


@triton.jit
def gradient_of(grad, y, AXIS: tl.constexpr):
    """Gradient of a whole tile along an axis, in the tile's own precision."""
    return y * (grad - tl.sum(grad * y, AXIS, keep_dims=True))


@triton.jit
def gradient_with_edges(grad, y, grad_edges, y_edges, AXIS: tl.constexpr):
    """Gradient of a whole tile and its rows' edges along an axis, in the tile's own precision."""
    total = tl.sum(grad * y, AXIS, keep_dims=True) + tl.sum(grad_edges * y_edges, AXIS, keep_dims=True)
    return y * (grad - total), y_edges * (grad_edges - total)


@triton.jit
def gradient_tile(
    grad, grad_start, grad_n, y, y_start, y_n, out, out_start, out_n, in_rows, n, cols,
    WIDE: tl.constexpr, EDGES: tl.constexpr, AXIS: tl.constexpr,
):  # fmt: skip
    """Gradient of rows that are held on chip, along an axis of the tile; in_rows says which there are."""
    DTYPE: tl.constexpr = out.dtype.element_ty
    if EDGES:
        before, inside = whole_vectors(grad_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        lane = tl.arange(0, 2 * EDGES)
        edge, known = edge_columns(lane[None, :] if AXIS == 1 else lane, before, inside, n, EDGES)
        known = known & in_rows
        grad_edges = tl.load(grad + (grad_start + edge), known, other=0).to(WIDE)
        y_edges = tl.load(y + (y_start + edge), known, other=0).to(WIDE)
        here = (grad_start + EDGES - 1) // EDGES * EDGES + cols
        grad_tile = tl.load(grad + here, mask, other=0, eviction_policy=READ).to(WIDE)
        here = (y_start + EDGES - 1) // EDGES * EDGES + cols
        y_tile = tl.load(y + here, mask, other=0, eviction_policy=READ).to(WIDE)
        result, edges = gradient_with_edges(grad_tile, y_tile, grad_edges, y_edges, AXIS)
        here = (out_start + EDGES - 1) // EDGES * EDGES + cols
        tl.store(out + here, result.to(DTYPE), mask)
        tl.store(out + (out_start + edge), edges.to(DTYPE), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0, eviction_policy=READ).to(WIDE)
        y_tile = tl.load(y + (y_start + here * y_n), mask, other=0, eviction_policy=READ).to(WIDE)
        tl.store(out + (out_start + here * out_n), gradient_of(grad_tile, y_tile, AXIS).to(DTYPE), mask)
