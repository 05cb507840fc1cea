"""A tile of whole rows to a program, which it holds on chip: one kernel, of which fused, multi_row_tile and columns
have each a layout."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon.softmax.words import softmax_of, softmax_with_edges
from kernelzoo.kernels.gluon.words import (
    READ,
    aligned,
    await_last_launch,
    edge_columns,
    inside_vectors,
    row_start,
    rows_of_tile,
)


@gluon.jit
def tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
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
    there = there[:, None]
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, COLS, gl.SliceLayout(0, LAYOUT))[None, :]
    length = n
    if EDGES:
        inside = inside_vectors(x_start, n, EDGES)
        length = inside.to(gl.int32)
        edge, known = edge_columns(x_start, there, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=float("-inf"))
    mask = there & (cols < length)
    here = cols.to(STEP)
    tile = gl.load(x + (aligned(x_start, EDGES) + here * x_n), mask, other=float("-inf"), eviction_policy=READ)
    out_here = out + (aligned(out_start, EDGES) + here * out_n)
    if EDGES:
        result, edges = softmax_with_edges(tile.to(WIDE), edges.to(WIDE), LAYOUT, EDGE_LAYOUT)
        gl.store(out_here, result.to(DTYPE), mask)
        gl.store(out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge), edges.to(DTYPE), known)
    else:
        gl.store(out_here, softmax_of(tile.to(WIDE)).to(DTYPE), mask)
