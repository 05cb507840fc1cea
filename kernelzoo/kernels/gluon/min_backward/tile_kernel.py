"""A tile of whole rows to a program, which it holds on chip: one kernel, of which fused, multi_row_tile and columns
have each a layout."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min_backward.words import shares_of
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
    x, y, grad, out, rows, n, inner,
    x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner,
    WIDE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, COLS: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """One read, one write. COLS is the power of two that holds a row: what lies past its end is masked."""
    await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        x_n = gl.cast(x_n, STEP) * MULTIPLE
        out_n = gl.cast(out_n, STEP) * MULTIPLE
    else:
        n *= MULTIPLE
    group, place, there = rows_of_tile(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    least = gl.load(y + row_start(group, place, y_outer, y_inner, 1, ACROSS), there, other=0).to(WIDE)[:, None]
    slope = gl.load(grad + row_start(group, place, grad_outer, grad_inner, 1, ACROSS), there, other=0).to(WIDE)
    there = there[:, None]
    cols = gl.arange(0, COLS, gl.SliceLayout(0, LAYOUT))[None, :]
    length = n
    if EDGES:
        inside = inside_vectors(x_start, n, EDGES)
        length = inside.to(gl.int32)
        edge, known = edge_columns(x_start, there, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=float("nan")).to(WIDE)
        edges_equal = edges == gl.convert_layout(least, EDGE_LAYOUT)
        out_edges = out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge)
    mask = there & (cols < length)
    here = cols.to(STEP)
    x_here = x + (aligned(x_start, EDGES) + here * x_n)
    equal = gl.load(x_here, mask, other=float("nan"), eviction_policy=READ).to(WIDE) == least
    count = gl.sum(equal.to(gl.int32), 1, keep_dims=True)
    if EDGES:
        count += gl.convert_layout(gl.sum(edges_equal.to(gl.int32), 1, keep_dims=True), LAYOUT)
    each, rest = shares_of(slope[:, None], count, DTYPE)
    gl.store(out + (aligned(out_start, EDGES) + here * out_n), gl.where(equal, each, rest), mask)
    if EDGES:
        edge_each = gl.convert_layout(each, EDGE_LAYOUT)
        edge_rest = gl.convert_layout(rest, EDGE_LAYOUT)
        gl.store(out_edges, gl.where(edges_equal, edge_each, edge_rest), known)


def launch_of_tiles(
    id: str, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tile: Tile
) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: x, y, grad and out."""
    x, y, grad, out = tensors
    rows, others = rows_with(x, out, y, grad)
    edges = 0 if tile.across else edges_of(rows)
    place = (*tiles.place_arguments(rows, tile), *tiles.one_a_row(rows, tile, *others))
    args = (*tensors, *place, wide_type(x.dtype), edges, *tile.constants(tiles.is_far(rows, tile)))
    options = tiles.held_options(device_of(x), tile)
    return bound(id, x, tile_kernel, tile.count(rows), args, tile.warps, tensors=4, **options)
