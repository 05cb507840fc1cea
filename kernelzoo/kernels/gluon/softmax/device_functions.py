"""Device functions of softmax: softmax of complete rows, and running (maximum, sum) states."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.shared.device_functions import TOGETHER, exponential, zero_if_empty


@gluon.jit
def compute_softmax(x):
    """Return softmax of the rows of a tile, in the tile's dtype."""
    top = zero_if_empty(gl.max(x, 1, keep_dims=True))
    exponentials = exponential(x - top)
    return exponentials * (1.0 / gl.sum(exponentials, 1, keep_dims=True))


@gluon.jit
def softmax_with_edges(x, edges, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr):
    """Return softmax of rows whose edges are a second tile, as (tile, edges)."""
    edge_top = gl.convert_layout(gl.max(edges, 1, keep_dims=True), LAYOUT)
    top = zero_if_empty(gl.maximum(gl.max(x, 1, keep_dims=True), edge_top))
    exponentials = exponential(x - top)
    edges = exponential(edges - gl.convert_layout(top, EDGE_LAYOUT))
    edge_total = gl.convert_layout(gl.sum(edges, 1, keep_dims=True), LAYOUT)
    inverse = 1.0 / (gl.sum(exponentials, 1, keep_dims=True) + edge_total)
    return exponentials * inverse, edges * gl.convert_layout(inverse, EDGE_LAYOUT)


@gluon.jit
def online_update(top, total, x):
    """Return each lane's (maximum, sum) state after one more element. top must be finite: see ``online_state``."""
    rise = x - top
    # One of exp(top - new top) and exp(x - new top) is 1. This is the other one.
    scale = exponential(-gl.abs(rise))
    return gl.maximum(top, x), gl.where(rise > 0, total * scale + 1, total + scale)


@gluon.jit
def online_state(
    x, x_start, x_n, offsets, cols, in_rows, begin, end, length, row_top, ACC_DTYPE: gl.constexpr, LOWEST: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Return each row's (maximum, sum) state over columns ``begin`` to ``end``. Maxima are at least ``row_top``. One
    pass reads the blocks. Every lane keeps its own state. Lanes merge after every 256 blocks. A lane's maximum starts
    at the lowest finite number, so that no difference is -inf - -inf."""
    row_total = gl.full([ROWS, 1], 0.0, ACC_DTYPE, LAYOUT)
    for first in range(begin, end, TOGETHER * BLOCK):
        top = gl.full([ROWS, BLOCK], LOWEST, ACC_DTYPE, LAYOUT)
        total = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
        for start in range(first, gl.minimum(end, first + TOGETHER * BLOCK), BLOCK):
            block = x + (x_start + start * x_n) + offsets * x_n
            tile = gl.load(block, in_rows & (cols < length - start), other=float("-inf"))
            top, total = online_update(top, total, tile.to(ACC_DTYPE))
        before = row_top
        row_top = gl.maximum(row_top, gl.max(top, 1, keep_dims=True))
        row_total *= exponential(before - row_top)
        row_total += gl.sum(total * exponential(top - row_top), 1, keep_dims=True)
    return row_top, row_total
