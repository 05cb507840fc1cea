"""Words of the gradient of a minimum that its kernels share: what is equal to a row's minimum, and what each gets.

Elements are compared as they are computed, half precision in float32; a masked one is NaN, which equals nothing. Where
rows start and end inside a 16-byte vector, EDGES is the length of one: a row is then its whole vectors, and at either
end an edge of fewer elements than that. Else EDGES is 0.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.softmax.words import READ
from kernelzoo.kernels.triton.words import edge_columns, whole_vectors

NOTHING_TWICE = tl.constexpr(0x7FFF7FFF)
"""Two NaN of half precision in one word, of float16 and of bfloat16."""


@triton.jit
def quotient(a, b):
    """``a / b`` rounded to nearest; in float32 the plain division of a device is not."""
    return a / b if a.dtype == tl.float64 else tl.div_rn(a, b)


@triton.jit
def shares_of(grad, count, DTYPE: tl.constexpr):
    """What each of count equal minima gets, and what every other element does; NaN if there is none."""
    rest = tl.where(count > 0, grad * 0.0, float("nan"))
    return quotient(grad, count.to(grad.dtype)).to(DTYPE), rest.to(DTYPE)


@triton.jit
def gradient_tile(
    x, x_start, x_n, least, grad, out, out_start, out_n, in_rows, n, cols,
    WIDE: tl.constexpr, EDGES: tl.constexpr, AXIS: tl.constexpr,
):  # fmt: skip
    """Gradient of rows that are held on chip, along an axis of the tile; in_rows says which there are.

    least and grad are the rows' minima and their gradients, as they are computed.
    """
    DTYPE: tl.constexpr = out.dtype.element_ty
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        lane = tl.arange(0, 2 * EDGES)
        edge, known = edge_columns(lane[None, :] if AXIS == 1 else lane, before, inside, n, EDGES)
        known = known & in_rows
        edges_equal = tl.load(x + (x_start + edge), known, other=float("nan")).to(WIDE) == least
        here = (x_start + EDGES - 1) // EDGES * EDGES + cols
        equal = tl.load(x + here, mask, other=float("nan"), eviction_policy=READ).to(WIDE) == least
        count = tl.sum(equal.to(tl.int32), AXIS, keep_dims=True)
        each, rest = shares_of(grad, count + tl.sum(edges_equal.to(tl.int32), AXIS, keep_dims=True), DTYPE)
        here = (out_start + EDGES - 1) // EDGES * EDGES + cols
        tl.store(out + here, tl.where(equal, each, rest), mask)
        tl.store(out + (out_start + edge), tl.where(edges_equal, each, rest), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        tile = tl.load(x + (x_start + here * x_n), mask, other=float("nan"), eviction_policy=READ)
        equal = tile.to(WIDE) == least
        each, rest = shares_of(grad, tl.sum(equal.to(tl.int32), AXIS, keep_dims=True), DTYPE)
        tl.store(out + (out_start + here * out_n), tl.where(equal, each, rest), mask)
