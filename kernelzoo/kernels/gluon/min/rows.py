"""A program takes whole rows, several short ones or one, and reduces each block of a row to a scalar at once."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min.tiles import Numbers, kinds, plain, row_tile
from kernelzoo.kernels.gluon.words import (
    aligned,
    await_last_launch,
    edge_columns,
    end_of_vectors,
    inside_vectors,
    lower,
    row_start,
    rows_of_tile,
)
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@gluon.jit
def rows_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    WIDE: gl.constexpr, IDENTITY: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    await_last_launch()
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = rows_of_tile(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    in_rows = there[:, None]
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, False)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    length = n
    if EDGES:
        length = inside_vectors(x_start, n, EDGES)
        edge, known = edge_columns(x_start, in_rows, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=IDENTITY).to(WIDE)
    x_start = aligned(x_start, EDGES)
    least = gl.full([ROWS], IDENTITY, WIDE, gl.SliceLayout(1, LAYOUT))
    for start in range(0, end_of_vectors(n, EDGES), BLOCK):
        block_here = x + (x_start + start * x_n) + here * x_n
        mask = in_rows & (cols < length - start)
        block = gl.load(block_here, mask, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, gl.reduce(block.to(WIDE), 1, lower))
    if EDGES:  # last, so that nothing waits for the edges before the rest is under way
        least = lower(least, gl.convert_layout(gl.reduce(edges, 1, lower), gl.SliceLayout(1, LAYOUT)))
    out_start = row_start(group, place, out_outer, out_inner, 1, False)
    gl.store(out + out_start, least.to(out.dtype.element_ty), there)


@register("gluon", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    tile = row_tile(of(Numbers, device.index), device, rows)
    place = (x, out, *tiles.place_arguments(rows, tile))
    args = (*place, *kinds(rows, x.dtype, tile))
    return bound("gluon/min/rows", x, rows_kernel, tile.count(rows), args, tile.warps)
