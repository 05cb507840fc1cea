"""Blocks of rows, whose running minimum stays a tile until they have ended: the kernel of rows_deferred_block, and with
its layout turned, of columns."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

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


@gluon.jit
def rows_deferred_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    WIDE: gl.constexpr, IDENTITY: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    await_last_launch()
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
    n = gl.cast(n, gl.int64)
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        x_n = gl.cast(x_n, STEP) * MULTIPLE
    else:
        n *= MULTIPLE
    group, place, there = rows_of_tile(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    in_rows = there[:, None]
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    length = n
    if EDGES:
        length = inside_vectors(x_start, n, EDGES)
        edge, known = edge_columns(x_start, in_rows, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=IDENTITY).to(WIDE)
    x_start = aligned(x_start, EDGES)
    running = gl.full([ROWS, BLOCK], IDENTITY, WIDE, LAYOUT)
    for start in range(0, end_of_vectors(n, EDGES), BLOCK):
        block_here = x + (x_start + start * x_n) + here * x_n
        mask = in_rows & (cols < length - start)
        block = gl.load(block_here, mask, other=IDENTITY, eviction_policy="evict_first")
        running = lower(running, block.to(WIDE))
    least = gl.reduce(running, 1, lower)
    if EDGES:
        least = lower(least, gl.convert_layout(gl.reduce(edges, 1, lower), gl.SliceLayout(1, LAYOUT)))
    out_start = row_start(group, place, out_outer, out_inner, 1, ACROSS)
    gl.store(out + out_start, least.to(out.dtype.element_ty), there)
