"""Several programs to one row: a launch that leaves (maximum, sum) pairs, and one that merges them and writes."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.pairs import LEAVE, WRITE
from kernelzoo.kernels.gluon.parts import cut
from kernelzoo.kernels.gluon.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.gluon.softmax.words import exponential, taken_in
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
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def parts_kernel(
    x, out, pairs, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr, PHASE: gl.constexpr,
    WIDE: gl.constexpr, LOWEST: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, FAR: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """A program has span units of a tile's rows; its edges are the first one's. PARTS is the power of two that holds
    the pairs of all."""
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
    there = there[:, None]
    x_start = row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT))[None, :]
    here = cols.to(STEP)
    begin = part.to(gl.int64) * span * UNIT
    end = begin + gl.cast(span, gl.int64) * UNIT
    length = n
    if EDGES:
        length = inside_vectors(x_start, n, EDGES)
        edge, known = edge_columns(x_start, there & (part == 0), n, EDGES, EDGE_LAYOUT)
        edges = gl.load(x + (gl.convert_layout(x_start, EDGE_LAYOUT) + edge), known, other=float("-inf")).to(WIDE)
        out_edges = out + (gl.convert_layout(out_start, EDGE_LAYOUT) + edge)
    x_start = aligned(x_start, EDGES)
    out_start = aligned(out_start, EDGES)
    length = gl.minimum(length, end)
    end = gl.minimum(end, n)
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    words = pairs + number.to(gl.int64) * (2 * ROWS) * parts + lane
    if PHASE == LEAVE:
        top = gl.full([ROWS, BLOCK], LOWEST, WIDE, LAYOUT)  # finite: see online_kernel
        total = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
        for start in range(begin, end, BLOCK):
            block = x + (x_start + start * x_n) + here * x_n
            tile = gl.load(block, there & (cols < length - start), other=float("-inf"))
            top, total = taken_in(top, total, tile.to(WIDE))
        row_top = gl.max(top, 1, keep_dims=True)
        if EDGES:
            row_top = gl.maximum(row_top, gl.convert_layout(gl.max(edges, 1, keep_dims=True), LAYOUT))
        row_total = gl.sum(total * exponential(top - row_top), 1)
        if EDGES:
            edges = exponential(edges - gl.convert_layout(row_top, EDGE_LAYOUT))
            row_total += gl.convert_layout(gl.sum(edges, 1), gl.SliceLayout(1, LAYOUT))
        gl.store(words + part * ROWS, gl.max(row_top, 1))
        gl.store(words + (parts + part) * ROWS, row_total)
    else:
        # Every program merges all pairs of its rows in the same order, so that all agree to the bit.
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        tops = gl.load(words[:, None] + peer * ROWS, peer < parts, other=LOWEST)
        totals = gl.load(words[:, None] + (parts + peer) * ROWS, peer < parts, other=0.0)
        row_top = gl.max(tops, 1, keep_dims=True)
        inverse = 1.0 / gl.sum(totals * exponential(tops - row_top), 1, keep_dims=True)
        if EDGES:
            edges = exponential(edges - gl.convert_layout(row_top, EDGE_LAYOUT))
            gl.store(out_edges, (edges * gl.convert_layout(inverse, EDGE_LAYOUT)).to(DTYPE), known)
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for i in range(blocks):
            start = begin + (blocks - 1 - i) * BLOCK  # backwards: what was read last is likeliest to be in L2 still
            mask = there & (cols < length - start)
            tile = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("-inf"))
            result = exponential(tile.to(WIDE) - row_top) * inverse
            gl.store(out + (out_start + start * out_n) + here * out_n, result.to(DTYPE), mask)


@register("gluon", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave (max, sum) pairs; a second launch merges them and writes.

    It reads every row twice, and no program waits for another.
    """
    rows, wide = rows_of(x, out), wide_dtype(x.dtype)
    tile = tiles.block(rows, BLOCK_BYTES)
    plan = cut(rows, tile, device_of(x))
    pairs = x.new_empty((tile.count(rows), 2, plan.parts, tile.rows), dtype=wide)
    place = (x, out, pairs, *tiles.place_arguments(rows, tile), plan.parts, plan.span, plan.unit, plan.merged)
    edges = 0 if tile.across else edges_of(rows)
    kinds = (wide_type(x.dtype), tiles.lowest(wide), edges, *tile.constants(tiles.is_far(rows, tile)))
    programs = tile.count(rows) * plan.parts

    def part(phase: object) -> Launch:
        args = (*place, phase, *kinds)
        return bound("gluon/softmax/split_two_launches", x, parts_kernel, programs, args, tile.warps)

    return sequence(part(LEAVE), part(WRITE))
