import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.softmax.device_functions import online_state
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_dtype, wide_type
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def parts_kernel(
    x, out, pairs, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr, parts,
    span, UNIT: gl.constexpr, PARTS: gl.constexpr, WRITES: gl.constexpr, ACC_DTYPE: gl.constexpr, LOWEST: gl.constexpr,
    EDGES: gl.constexpr, ACROSS: gl.constexpr, WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr,
    LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Store one part's partial results. If WRITES, merge those of all parts instead, and write the part's output. A
    part has ``span`` units of UNIT elements per row, part 0 also the unaligned ends. PARTS: a power of two >= parts."""
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, x_n, out_n = dev.multiply_sizes(gl.cast(n, gl.int64), inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    number, part = dev.tile_and_part(parts)
    group, place, there = dev.row_coords(number, rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    begin, end = dev.part_range(part, span, UNIT)
    has_edges = there & (part == 0)
    length, edge, known, edges = dev.load_edges(x, x_start, has_edges, n, float("-inf"), ACC_DTYPE, EDGES, EDGE_LAYOUT)
    if EDGES:
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    x_start = dev.align(x_start, EDGES)
    out_start = dev.align(out_start, EDGES)
    length = gl.minimum(length, end)
    end = gl.minimum(end, n)
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    left = pairs + number.to(gl.int64) * (2 * ROWS) * parts + lane
    if not WRITES:
        row_top = gl.full([ROWS, 1], LOWEST, ACC_DTYPE, LAYOUT)
        if EDGES:
            row_top = gl.maximum(row_top, gl.convert_layout(gl.max(edges, 1, keep_dims=True), LAYOUT))
        row_top, total = online_state(
            x, x_start, x_n, here, cols, there, begin, end, length, row_top, ACC_DTYPE, LOWEST, ROWS, BLOCK, LAYOUT
        )
        row_total = gl.sum(total, 1)
        if EDGES:
            edges = exponential(edges - gl.convert_layout(row_top, EDGE_LAYOUT))
            row_total += gl.convert_layout(gl.sum(edges, 1), gl.SliceLayout(1, LAYOUT))
        gl.store(left + part * ROWS, gl.max(row_top, 1))
        gl.store(left + (parts + part) * ROWS, row_total)
    else:
        # Every program merges all pairs of its rows in the same order, so all get the same bits.
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        tops = gl.load(left[:, None] + peer * ROWS, peer < parts, other=LOWEST)
        totals = gl.load(left[:, None] + (parts + peer) * ROWS, peer < parts, other=0.0)
        row_top = gl.max(tops, 1, keep_dims=True)
        inverse = 1.0 / gl.sum(totals * exponential(tops - row_top), 1, keep_dims=True)
        if EDGES:
            edges = exponential(edges - gl.convert_layout(row_top, EDGE_LAYOUT))
            gl.store(out_edges, (edges * gl.convert_layout(inverse, EDGE_LAYOUT)).to(DTYPE), known)
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for i in range(blocks):
            start = begin + (blocks - 1 - i) * BLOCK  # backwards: what was read last is likely still in L2
            mask = there & (cols < length - start)
            tile = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("-inf"))
            result = exponential(tile.to(ACC_DTYPE) - row_top) * inverse
            gl.store(out + (out_start + start * out_n) + here * out_n, result.to(DTYPE), mask)


@register("gluon", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns. One launch stores states, a second merges them and writes."""
    id, rows, wide = "gluon/softmax/split_two_launches", rows_of(x, out), wide_dtype(x.dtype)
    tile = tiles.make_block_tile(rows, tiles.BLOCK_BYTES)
    plan, count = tiles.plan_parts(rows, tile, device_of(x)), tile.count_tiles(rows)
    pairs = x.new_empty((count, 2, plan.parts, tile.rows), dtype=wide)
    place = (x, out, pairs, *tiles.layout_arguments(rows, tile), *plan)
    kinds = (wide_type(x.dtype), tiles.lowest_finite(wide), *tile.kernel_constants(rows))
    both = ((*place, writes, *kinds) for writes in (False, True))
    return chain_launches(*(bind_grid(id, parts_kernel, count * plan.parts, args, tile.warps) for args in both))
