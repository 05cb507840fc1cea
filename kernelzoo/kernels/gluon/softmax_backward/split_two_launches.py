"""Several programs to one row: a launch that leaves their sums, and one that adds these up and writes."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
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
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, wide_dtype, wide_type
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def parts_kernel(
    grad, y, out, sums, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, y_outer, y_n, y_inner, parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr,
    PHASE: gl.constexpr, WIDE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """A program has span units of a tile's rows; its edges are the first one's. PARTS is the power of two that holds
    the sums of all."""
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
    number = gl.program_id(0) // parts
    part = gl.program_id(0) % parts
    group, place, there = rows_of_tile(number, rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    grad_start = row_start(group, place, grad_outer, grad_inner, MULTIPLE, ACROSS)[:, None]
    y_start = row_start(group, place, y_outer, y_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    begin = part.to(gl.int64) * span * UNIT
    end = begin + gl.cast(span, gl.int64) * UNIT
    length = n
    if EDGES:
        length = inside_vectors(grad_start, n, EDGES)
        edge, known = edge_columns(grad_start, there & (part == 0), n, EDGES, EDGE_LAYOUT)
        grad_edges = gl.load(grad + (gl.convert_layout(grad_start, EDGE_LAYOUT) + edge), known, other=0).to(WIDE)
        y_edges = gl.load(y + (gl.convert_layout(y_start, EDGE_LAYOUT) + edge), known, other=0).to(WIDE)
        out_edges = out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge)
    grad_start = aligned(grad_start, EDGES)
    y_start = aligned(y_start, EDGES)
    out_start = aligned(out_start, EDGES)
    length = gl.minimum(length, end)
    end = gl.minimum(end, n)
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    words = sums + number.to(gl.int64) * ROWS * parts + lane
    if PHASE == LEAVE:
        running = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
        for start in range(begin, end, BLOCK):
            mask = there & (cols < length - start)
            grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(WIDE)
            running += grads * gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(WIDE)
        total = gl.sum(running, 1)
        if EDGES:
            total += gl.convert_layout(gl.sum(grad_edges * y_edges, 1), gl.SliceLayout(1, LAYOUT))
        gl.store(words + part * ROWS, total)
    else:
        # Every program adds up all sums of its rows in the same order, so that all agree to the bit.
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        total = gl.sum(gl.load(words[:, None] + peer * ROWS, peer < parts, other=0.0), 1, keep_dims=True)
        if EDGES:
            edges = y_edges * (grad_edges - gl.convert_layout(total, EDGE_LAYOUT))
            gl.store(out_edges, edges.to(DTYPE), known)
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for i in range(blocks):
            start = begin + (blocks - 1 - i) * BLOCK  # backwards: what was read last is likeliest to be in L2 still
            mask = there & (cols < length - start)
            grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(WIDE)
            weights = gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(WIDE)
            gl.store(out + (out_start + start * out_n) + here * out_n, (weights * (grads - total)).to(DTYPE), mask)


@register("gluon", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums in a workspace; a second launch writes.

    It reads every row twice, and no program waits for another.
    """
    id = "gluon/softmax_backward/split_two_launches"
    rows, (weights,) = rows_with(grad, out, y)
    tile = tiles.block(rows, BLOCK_BYTES, weights)
    plan, count = cut(rows, tile, device_of(grad), weights), tile.count(rows)
    sums = grad.new_empty((count, plan.parts, tile.rows), dtype=wide_dtype(grad.dtype))
    place = (grad, y, out, sums, *tiles.place_arguments(rows, tile, weights))
    edges = 0 if tile.across else edges_of(rows, weights)
    kinds = (wide_type(grad.dtype), edges, *tile.constants(tiles.is_far(rows, tile, weights)))

    def part(phase: object) -> Launch:
        args = (*place, plan.parts, plan.span, plan.unit, plan.merged, phase, *kinds)
        return bound(id, grad, parts_kernel, count * plan.parts, args, tile.warps, tensors=3)

    return sequence(part(LEAVE), part(WRITE))
