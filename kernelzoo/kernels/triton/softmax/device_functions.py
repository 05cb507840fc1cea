"""Words of softmax that its kernels share: the exponential, and tiles of whole rows.

All kernels subtract the maximum first and scale by log2(e) after (``exponential`` does), since the other order loses
bits on rows with a large offset. ``tl.max`` drops a NaN, and the sum brings it back: exp(NaN - max) is NaN.

Where rows start and end inside a 16-byte vector, EDGES is the length of one: a row is then its whole vectors, and at
either end an edge of fewer elements than that. Else EDGES is 0.
"""

import triton
import triton.language as tl

READ: tl.constexpr = tl.constexpr("evict_last")
"""How long the L2 cache keeps the elements of rows that a program holds: longer than the results. Read lines that stay
make the written ones leave for memory steadily; kernels before and after are no slower for it."""


@triton.jit
def exponential(x):
    """e^x; in float32 by the device's power of two, results below the smallest normal number flushed to zero."""
    return tl.exp(x) if x.dtype == tl.float64 else tl.exp2(x * 1.4426950408889634)


@triton.jit
def zero_if_empty(top):
    """What to subtract: of a row of -inf alone 0, so that 0 / 0 makes its NaN, and no lane computes -inf - -inf."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def softmax_of(x, AXIS: tl.constexpr):
    """Softmax of a whole tile along an axis, in the tile's own precision."""
    top = zero_if_empty(tl.max(x, AXIS, keep_dims=True))
    exponentials = exponential(x - top)
    return exponentials * (1.0 / tl.sum(exponentials, AXIS, keep_dims=True))


@triton.jit
def softmax_with_edges(x, edges, AXIS: tl.constexpr):
    """Softmax of a whole tile and its rows' edges along an axis, in the tile's own precision."""
    top = zero_if_empty(tl.maximum(tl.max(x, AXIS, keep_dims=True), tl.max(edges, AXIS, keep_dims=True)))
    exponentials = exponential(x - top)
    edges = exponential(edges - top)
    inverse = 1.0 / (tl.sum(exponentials, AXIS, keep_dims=True) + tl.sum(edges, AXIS, keep_dims=True))
    return exponentials * inverse, edges * inverse
