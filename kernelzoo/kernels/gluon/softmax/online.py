"""A running (maximum, sum) pair in each lane over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.softmax.words import exponential, taken_in
from kernelzoo.kernels.gluon.words import (
    aligned,
    await_last_launch,
    edge_columns,
    end_of_vectors,
    inside_vectors,
    row_start,
    rows_of_tile,
)
from kernelzoo.kernels.shared.jit import bound, edges_of, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

BLOCK_BYTES = 16384
"""Of a block of the running pair: 16 float32 elements to each of 256 threads, with a maximum and a sum for each."""


@gluon.jit
def online_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    WIDE: gl.constexpr, LOWEST: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
    n = gl.cast(n, gl.int64)
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        x_n = gl.cast(x_n, STEP) * MULTIPLE
        out_n = gl.cast(out_n, STEP) * MULTIPLE
    else:
        n *= MULTIPLE
    group, place, there = rows_of_tile(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    # Every lane keeps a pair of its own, and lanes meet once, after the loop. A maximum starts at the lowest finite
    # number, so that no difference of two is -inf - -inf.
    top = gl.full([ROWS, BLOCK], LOWEST, WIDE, LAYOUT)
    total = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
    length = n
    if EDGES:
        length = inside_vectors(x_start, n, EDGES)
        edge, known = edge_columns(x_start, there, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=float("-inf")).to(WIDE)
        out_edges = out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge)
    x_start = aligned(x_start, EDGES)
    out_start = aligned(out_start, EDGES)
    longest = end_of_vectors(n, EDGES)
    for start in range(0, longest, BLOCK):
        block = x + (x_start + start * x_n) + here * x_n
        tile = gl.load(block, there & (cols < length - start), other=float("-inf"))
        top, total = taken_in(top, total, tile.to(WIDE))
    row_top = gl.max(top, 1, keep_dims=True)
    if EDGES:
        row_top = gl.maximum(row_top, gl.convert_layout(gl.max(edges, 1, keep_dims=True), LAYOUT))
    row_total = gl.sum(total * exponential(top - row_top), 1, keep_dims=True)
    if EDGES:
        edges = exponential(edges - gl.convert_layout(row_top, EDGE_LAYOUT))
        row_total += gl.convert_layout(gl.sum(edges, 1, keep_dims=True), LAYOUT)
    inverse = 1.0 / row_total
    if EDGES:
        gl.store(out_edges, (edges * gl.convert_layout(inverse, EDGE_LAYOUT)).to(DTYPE), known)
    blocks = (longest + BLOCK - 1) // BLOCK
    for i in range(blocks):
        start = (blocks - 1 - i) * BLOCK  # backwards: what was read last is likeliest to be in a cache still
        mask = there & (cols < length - start)
        tile = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("-inf"))
        result = exponential(tile.to(WIDE) - row_top) * inverse
        gl.store(out + (out_start + start * out_n) + here * out_n, result.to(DTYPE), mask)


@register("gluon", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each lane, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows = rows_of(x, out)
    tile = tiles.block(rows, BLOCK_BYTES)
    edges = 0 if tile.across else edges_of(rows)
    kinds = (wide_type(x.dtype), tiles.lowest(wide_dtype(x.dtype)), edges)
    args = (x, out, *tiles.place_arguments(rows, tile), *kinds, *tile.constants(tiles.is_far(rows, tile)))
    return bound("gluon/softmax/online", x, online_kernel, tile.count(rows), args, tile.warps)
