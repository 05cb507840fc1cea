"""A running sum in each lane over blocks of a row of both inputs, then a pass that reads them again and writes."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.gluon.words import (
    aligned,
    await_last_launch,
    edge_columns,
    end_of_vectors,
    inside_vectors,
    row_start,
    rows_of_tile,
)
from kernelzoo.kernels.shared.jit import bound, edges_of, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@gluon.jit
def online_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_n, y_inner, WIDE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
    n = gl.cast(n, gl.int64)
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        grad_n = gl.cast(grad_n, STEP) * MULTIPLE
        y_n = gl.cast(y_n, STEP) * MULTIPLE
        out_n = gl.cast(out_n, STEP) * MULTIPLE
    else:
        n *= MULTIPLE
    group, place, there = rows_of_tile(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    grad_start = row_start(group, place, grad_outer, grad_inner, MULTIPLE, ACROSS)[:, None]
    y_start = row_start(group, place, y_outer, y_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    length = n
    if EDGES:
        length = inside_vectors(grad_start, n, EDGES)
        edge, known = edge_columns(grad_start, there, n, EDGES, EDGE_LAYOUT)
        grad_edges = gl.load(grad + (gl.convert_layout(grad_start, EDGE_LAYOUT) + edge), known, other=0).to(WIDE)
        y_edges = gl.load(y + (gl.convert_layout(y_start, EDGE_LAYOUT) + edge), known, other=0).to(WIDE)
        out_edges = out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge)
    grad_start = aligned(grad_start, EDGES)
    y_start = aligned(y_start, EDGES)
    out_start = aligned(out_start, EDGES)
    longest = end_of_vectors(n, EDGES)
    running = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
    for start in range(0, longest, BLOCK):
        mask = there & (cols < length - start)
        grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(WIDE)
        running += grads * gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(WIDE)
    total = gl.sum(running, 1, keep_dims=True)
    if EDGES:
        total += gl.convert_layout(gl.sum(grad_edges * y_edges, 1, keep_dims=True), LAYOUT)
        gl.store(out_edges, (y_edges * (grad_edges - gl.convert_layout(total, EDGE_LAYOUT))).to(DTYPE), known)
    blocks = (longest + BLOCK - 1) // BLOCK
    for i in range(blocks):
        start = (blocks - 1 - i) * BLOCK  # backwards: what was read last is likeliest to be in a cache still
        mask = there & (cols < length - start)
        grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(WIDE)
        weights = gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(WIDE)
        gl.store(out + (out_start + start * out_n) + here * out_n, (weights * (grads - total)).to(DTYPE), mask)


@register("gluon", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum in each lane, then a pass that reads again and writes."""
    rows, (weights,) = rows_with(grad, out, y)
    tile = tiles.block(rows, BLOCK_BYTES, weights)
    edges = 0 if tile.across else edges_of(rows, weights)
    kinds = (wide_type(grad.dtype), edges, *tile.constants(tiles.is_far(rows, tile, weights)))
    args = (grad, y, out, *tiles.place_arguments(rows, tile, weights), *kinds)
    id = "gluon/softmax_backward/online"
    return bound(id, grad, online_kernel, tile.count(rows), args, tile.warps, tensors=3)
