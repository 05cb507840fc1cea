"""Device functions of softmax: softmax of complete rows, and running (maximum, sum) states.

A row that starts or ends inside an aligned 16-byte vector has *edges*: a head and a tail shorter than a vector. EDGES
is the number of elements per vector, or 0 if no row has edges.
"""

import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import TOGETHER, align, exponential, zero_if_empty
from kernelzoo.kernels.triton.device_functions import head_and_body, head_and_tail, rounded_product

READ: tl.constexpr = tl.constexpr("evict_last")
"""The L2 policy for rows that a program keeps on chip: inputs stay in L2 longer than results. Results are then written
to memory steadily. Kernels before and after are no slower for it."""


@triton.jit
def compute_softmax(x, AXIS: tl.constexpr):
    """Return softmax of a tile along an axis, in the tile's dtype."""
    top = zero_if_empty(tl.max(x, AXIS, keep_dims=True))
    exponentials = exponential(x - top)
    return exponentials * (1.0 / tl.sum(exponentials, AXIS, keep_dims=True))


@triton.jit
def softmax_with_edges(x, edges, AXIS: tl.constexpr):
    """Return softmax of rows whose edges are a second tile, along an axis, as (tile, edges)."""
    top = zero_if_empty(tl.maximum(tl.max(x, AXIS, keep_dims=True), tl.max(edges, AXIS, keep_dims=True)))
    exponentials = exponential(x - top)
    edges = exponential(edges - top)
    inverse = 1.0 / (tl.sum(exponentials, AXIS, keep_dims=True) + tl.sum(edges, AXIS, keep_dims=True))
    return exponentials * inverse, edges * inverse


@triton.jit
def online_state(
    x, x_start, x_n, cols, in_rows, inside, longest, edges,
    LOWEST: tl.constexpr, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return each row's maximum, sum and exponentials of elements outside complete vectors (edges), in one pass.

    Every lane keeps its own state. Lanes merge after every 256 blocks. A lane's maximum starts at the lowest finite
    number, so that no difference is -inf - -inf.
    """
    row_top = tl.full([ROWS, 1], LOWEST, ACC_DTYPE)
    if EDGES:
        row_top = tl.maximum(row_top, tl.max(edges, 1, keep_dims=True))
    row_total = tl.zeros_like(row_top)
    for first in range(0, longest, TOGETHER * BLOCK):
        top = tl.full([ROWS, BLOCK], LOWEST, ACC_DTYPE)
        total = tl.zeros_like(top)
        for start in range(first, tl.minimum(longest, first + TOGETHER * BLOCK), BLOCK):
            here = start + cols
            tile = tl.load(x + (x_start + here * x_n), in_rows & (here < inside), other=float("-inf")).to(ACC_DTYPE)
            rise = tile - top
            # One of exp(top - new top) and exp(tile - new top) is 1. This is the other one.
            scale = exponential(-tl.abs(rise))
            total = tl.where(rise > 0, total * scale + 1, total + scale)
            top = tl.maximum(top, tile)
        before = row_top
        row_top = tl.maximum(row_top, tl.max(top, 1, keep_dims=True))
        row_total *= exponential(before - row_top)
        row_total += tl.sum(rounded_product(total, exponential(top - row_top)), 1, keep_dims=True)
    if EDGES:
        edges = exponential(edges - row_top)
        row_total += tl.sum(edges, 1, keep_dims=True)
    return row_top, row_total, edges


@triton.jit
def softmax_row(x, x_start, x_n, out, out_start, out_n, n, cols, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr):
    """Write softmax of one row, which stays on chip and may have edges."""
    if EDGES:
        write_unaligned_row(x, x_start, out, out_start, n, cols, ACC_DTYPE, EDGES)
    else:
        mask = cols < n
        here = cols.to(tl.int64)
        tile = tl.load(x + x_start + here * x_n, mask, other=float("-inf"), eviction_policy=READ)
        tl.store(out + out_start + here * out_n, compute_softmax(tile.to(ACC_DTYPE), 0).to(out.dtype.element_ty), mask)


@triton.jit
def write_unaligned_row(x, x_start, out, out_start, n, cols, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr):
    """Write softmax of one row that starts or ends inside a vector. cols: the columns of its complete vectors."""
    before, inside = head_and_body(x_start, n, EDGES)
    before, inside = before.to(tl.int32), inside.to(tl.int32)
    x_body = x + align(x_start, EDGES) + cols
    out_body = out + align(out_start, EDGES) + cols
    mask = cols < inside
    edge, known = head_and_tail(tl.arange(0, 2 * EDGES), before, inside, n, EDGES)
    edges = tl.load(x + x_start + edge, known, other=float("-inf"))
    tile = tl.load(x_body, mask, other=float("-inf"), eviction_policy=READ)
    result, edges = softmax_with_edges(tile.to(ACC_DTYPE), edges.to(ACC_DTYPE), 0)
    tl.store(out_body, result.to(out.dtype.element_ty), mask)
    tl.store(out + out_start + edge, edges.to(out.dtype.element_ty), known)
