"""A tile of whole rows of both inputs to a program, which it holds on chip: one kernel, of which fused, multi_row_tile
and columns have each a layout. A masked element counts as 0 in both inputs, and so adds nothing."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.tiles import Tile
from kernelzoo.kernels.gluon.words import (
    READ,
    aligned,
    await_last_launch,
    edge_columns,
    inside_vectors,
    row_start,
    rows_of_tile,
)
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with


@gluon.jit
def tile_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_n, y_inner, WIDE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, COLS: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Each input is read once, and the result written. COLS is the power of two that holds a row."""
    await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
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
    cols = gl.arange(0, COLS, gl.SliceLayout(0, LAYOUT))[None, :]
    length = n
    if EDGES:
        inside = inside_vectors(grad_start, n, EDGES)
        length = inside.to(gl.int32)
        edge, known = edge_columns(grad_start, there, n, EDGES, EDGE_LAYOUT)
        grad_edges = gl.load(grad + (gl.convert_layout(grad_start, EDGE_LAYOUT) + edge), known, other=0).to(WIDE)
        y_edges = gl.load(y + (gl.convert_layout(y_start, EDGE_LAYOUT) + edge), known, other=0).to(WIDE)
    mask = there & (cols < length)
    here = cols.to(STEP)
    grad_here = grad + (aligned(grad_start, EDGES) + here * grad_n)
    grads = gl.load(grad_here, mask, other=0, eviction_policy=READ).to(WIDE)
    weights = gl.load(y + (aligned(y_start, EDGES) + here * y_n), mask, other=0, eviction_policy=READ).to(WIDE)
    total = gl.sum(grads * weights, 1, keep_dims=True)
    if EDGES:
        total += gl.convert_layout(gl.sum(grad_edges * y_edges, 1, keep_dims=True), LAYOUT)
        edges = y_edges * (grad_edges - gl.convert_layout(total, EDGE_LAYOUT))
        gl.store(out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge), edges.to(DTYPE), known)
    gl.store(out + (aligned(out_start, EDGES) + here * out_n), (weights * (grads - total)).to(DTYPE), mask)


def launch_of_tiles(id: str, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor], tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: grad, y and out."""
    grad, y, out = tensors
    rows, (weights,) = rows_with(grad, out, y)
    edges = 0 if tile.across else edges_of(rows, weights)
    kinds = (wide_type(grad.dtype), edges, *tile.constants(tiles.is_far(rows, tile, weights)))
    args = (*tensors, *tiles.place_arguments(rows, tile, weights), *kinds)
    options = tiles.held_options(device_of(grad), tile)
    return bound(id, grad, tile_kernel, tile.count(rows), args, tile.warps, tensors=3, **options)
