"""Several programs take rows in parts and leave partial minima, which the last to arrive joins: the kernel of
split_arrival, and with its layout turned, of columns_split."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min.tiles import kinds
from kernelzoo.kernels.gluon.parts import cut
from kernelzoo.kernels.gluon.tiles import Tile
from kernelzoo.kernels.gluon.words import (
    aligned,
    await_last_launch,
    barrier,
    edge_columns,
    inside_vectors,
    lower,
    row_start,
    rows_of_tile,
)
from kernelzoo.kernels.shared.jit import bound, device_of, wide_dtype
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of


@gluon.jit(do_not_specialize=["parts", "span"])
def split_kernel(
    x, out, partials, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr,
    WIDE: gl.constexpr, IDENTITY: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """A program has span units of a tile's rows; its edges are the first one's. PARTS is the power of two that holds
    the minima of all."""
    await_last_launch()
    STEP: gl.constexpr = gl.int64 if FAR else gl.int32
    n = gl.cast(n, gl.int64)
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        x_n = gl.cast(x_n, STEP) * MULTIPLE
    else:
        n *= MULTIPLE
    number = gl.program_id(0) // parts
    part = gl.program_id(0) % parts
    group, place, there = rows_of_tile(number, rows, inner, ACROSS, ROWS, LAYOUT)
    in_rows = there[:, None]
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    begin = part.to(gl.int64) * span * UNIT
    end = begin + gl.cast(span, gl.int64) * UNIT
    length = n
    if EDGES:
        length = inside_vectors(x_start, n, EDGES)
        edge, known = edge_columns(x_start, in_rows & (part == 0), n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=IDENTITY).to(WIDE)
    x_start = aligned(x_start, EDGES)
    length = gl.minimum(length, end)
    running = gl.full([ROWS, BLOCK], IDENTITY, WIDE, LAYOUT)
    for start in range(begin, gl.minimum(end, n), BLOCK):
        block_here = x + (x_start + gl.cast(start, gl.int64) * x_n) + here * x_n
        mask = in_rows & (cols < length - start)
        block = gl.load(block_here, mask, other=IDENTITY, eviction_policy="evict_first")
        running = lower(running, block.to(WIDE))
    least = gl.reduce(running, 1, lower)
    if EDGES:
        least = lower(least, gl.convert_layout(gl.reduce(edges, 1, lower), gl.SliceLayout(1, LAYOUT)))
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    words = partials + number.to(gl.int64) * ROWS * parts + lane
    gl.store(words + part * ROWS, least)
    # The barrier puts the stores of all threads before the arrival, whose release hands them to the device. The last
    # program to arrive acquires those of all others.
    barrier()
    if gl.atomic_add(arrivals + number, 1, sem="acq_rel", scope="gpu") == parts - 1:
        barrier()
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        found = gl.load(words[:, None] + peer * ROWS, peer < parts, other=IDENTITY, cache_modifier=".cg")
        result = gl.reduce(found, 1, lower).to(out.dtype.element_ty)
        gl.store(out + row_start(group, place, out_outer, out_inner, 1, ACROSS), result, there)
        gl.store(arrivals + number, 0)  # for the next launch


def launch_in_parts(id: str, x: torch.Tensor, out: torch.Tensor, tile: Tile) -> Launch:
    """The launch of so many programs to a tile as fill the device. It leaves its counts of arrivals at zero."""
    rows = rows_of(x, out)
    plan, count = cut(rows, tile, device_of(x)), tile.count(rows)
    partials = x.new_empty((count, plan.parts, tile.rows), dtype=wide_dtype(x.dtype))
    arrivals = x.new_zeros(count, dtype=torch.int32)
    place = (x, out, partials, arrivals, *tiles.place_arguments(rows, tile))
    args = (*place, plan.parts, plan.span, plan.unit, plan.merged, *kinds(rows, x.dtype, tile))
    return bound(id, x, split_kernel, count * plan.parts, args, tile.warps)
