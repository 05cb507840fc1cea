"""Several programs to one row: a launch that leaves their counts, and one that adds these up and writes."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min_backward.words import shares_of
from kernelzoo.kernels.gluon.pairs import LEAVE, WRITE
from kernelzoo.kernels.gluon.parts import cut
from kernelzoo.kernels.gluon.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.gluon.words import (
    aligned,
    await_last_launch,
    edge_columns,
    inside_vectors,
    row_start,
    rows_of_tile,
)
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, wide_type
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def parts_kernel(
    x, y, grad, out, counts, rows, n, inner,
    x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr,
    PHASE: gl.constexpr, WIDE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """A program has span units of a tile's rows; its edges are the first one's. PARTS is the power of two that holds
    the counts of all."""
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
    number = gl.program_id(0) // parts
    part = gl.program_id(0) % parts
    group, place, there = rows_of_tile(number, rows, inner, ACROSS, ROWS, LAYOUT)
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    least = gl.load(y + row_start(group, place, y_outer, y_inner, 1, ACROSS), there, other=0).to(WIDE)[:, None]
    slope = gl.load(grad + row_start(group, place, grad_outer, grad_inner, 1, ACROSS), there, other=0).to(WIDE)
    there = there[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    begin = part.to(gl.int64) * span * UNIT
    end = begin + gl.cast(span, gl.int64) * UNIT
    length = n
    if EDGES:
        length = inside_vectors(x_start, n, EDGES)
        edge, known = edge_columns(x_start, there & (part == 0), n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=float("nan")).to(WIDE)
        edges_equal = edges == gl.convert_layout(least, EDGE_LAYOUT)
        out_edges = out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge)
    x_start = aligned(x_start, EDGES)
    out_start = aligned(out_start, EDGES)
    length = gl.minimum(length, end)
    end = gl.minimum(end, n)
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    words = counts + number.to(gl.int64) * ROWS * parts + lane
    if PHASE == LEAVE:
        # Every lane counts for itself, in 32 bits, and lanes meet once, after the loop, in 64.
        running = gl.full([ROWS, BLOCK], 0, gl.int32, LAYOUT)
        for start in range(begin, end, BLOCK):
            mask = there & (cols < length - start)
            block = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("nan")).to(WIDE)
            running += (block == least).to(gl.int32)
        count = gl.sum(running.to(gl.int64), 1)
        if EDGES:
            count += gl.convert_layout(gl.sum(edges_equal.to(gl.int64), 1), gl.SliceLayout(1, LAYOUT))
        gl.store(words + part * ROWS, count)
    else:
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        count = gl.sum(gl.load(words[:, None] + peer * ROWS, peer < parts, other=0), 1, keep_dims=True)
        each, rest = shares_of(slope[:, None], count, DTYPE)
        if EDGES:
            edge_each = gl.convert_layout(each, EDGE_LAYOUT)
            edge_rest = gl.convert_layout(rest, EDGE_LAYOUT)
            gl.store(out_edges, gl.where(edges_equal, edge_each, edge_rest), known)
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for i in range(blocks):
            start = begin + (blocks - 1 - i) * BLOCK  # backwards: what was read last is likeliest to be in L2 still
            mask = there & (cols < length - start)
            block = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("nan")).to(WIDE)
            result = gl.where(block == least, each, rest)
            gl.store(out + (out_start + start * out_n) + here * out_n, result, mask)


@register("gluon", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave counts in a workspace; a second launch writes.

    It reads every row twice, and no program waits for another.
    """
    id = "gluon/min_backward/split_two_launches"
    rows, others = rows_with(x, out, y, grad)
    tile = tiles.block(rows, BLOCK_BYTES)
    plan, count = cut(rows, tile, device_of(x)), tile.count(rows)
    counts = x.new_empty((count, plan.parts, tile.rows), dtype=torch.int64)
    place = (*tiles.place_arguments(rows, tile), *tiles.one_a_row(rows, tile, *others))
    edges = 0 if tile.across else edges_of(rows)
    kinds = (wide_type(x.dtype), edges, *tile.constants(tiles.is_far(rows, tile)))

    def part(phase: object) -> Launch:
        args = (x, y, grad, out, counts, *place, plan.parts, plan.span, plan.unit, plan.merged, phase, *kinds)
        return bound(id, x, parts_kernel, count * plan.parts, args, tile.warps, tensors=4)

    return sequence(part(LEAVE), part(WRITE))
