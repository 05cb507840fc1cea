import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.device_functions import split_gradient
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_type
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def parts_kernel(
    x, y, grad, out, counts, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr,
    WRITES: gl.constexpr, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    """Store one part's partial results. If WRITES, merge those of all parts instead, and write the part's output. A
    part has ``span`` units of UNIT elements per row, part 0 also the unaligned ends. PARTS: a power of two >= parts."""
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, x_n, out_n = dev.multiply_sizes(gl.cast(n, gl.int64), inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    number, part = dev.tile_and_part(parts)
    group, place, there = dev.row_coords(number, rows, inner, ACROSS, ROWS, LAYOUT)
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    least = dev.load_per_row(y, group, place, y_outer, y_inner, there, ACC_DTYPE, ACROSS)[:, None]
    slope = dev.load_per_row(grad, group, place, grad_outer, grad_inner, there, ACC_DTYPE, ACROSS)
    there = there[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    begin, end = dev.part_range(part, span, UNIT)
    has_edges = there & (part == 0)
    length, edge, known, edges = dev.load_edges(x, x_start, has_edges, n, float("nan"), ACC_DTYPE, EDGES, EDGE_LAYOUT)
    if EDGES:
        edges_equal = edges == gl.convert_layout(least, EDGE_LAYOUT)
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    x_start = dev.align(x_start, EDGES)
    out_start = dev.align(out_start, EDGES)
    length = gl.minimum(length, end)
    end = gl.minimum(end, n)
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    left = counts + number.to(gl.int64) * ROWS * parts + lane
    if not WRITES:
        # Every lane counts in 32 bits. Lanes are added up once, after the loop, in 64 bits.
        running = gl.full([ROWS, BLOCK], 0, gl.int32, LAYOUT)
        for start in range(begin, end, BLOCK):
            mask = there & (cols < length - start)
            block = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("nan")).to(ACC_DTYPE)
            running += (block == least).to(gl.int32)
        count = gl.sum(running.to(gl.int64), 1)
        if EDGES:
            count += gl.convert_layout(gl.sum(edges_equal.to(gl.int64), 1), gl.SliceLayout(1, LAYOUT))
        gl.store(left + part * ROWS, count)
    else:
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        count = gl.sum(gl.load(left[:, None] + peer * ROWS, peer < parts, other=0), 1, keep_dims=True)
        each, rest = split_gradient(slope[:, None], count, DTYPE)
        if EDGES:
            edge_each = gl.convert_layout(each, EDGE_LAYOUT)
            edge_rest = gl.convert_layout(rest, EDGE_LAYOUT)
            gl.store(out_edges, gl.where(edges_equal, edge_each, edge_rest), known)
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for i in range(blocks):
            start = begin + (blocks - 1 - i) * BLOCK  # backwards: what was read last is likely still in L2
            mask = there & (cols < length - start)
            block = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("nan")).to(ACC_DTYPE)
            result = gl.where(block == least, each, rest)
            gl.store(out + (out_start + start * out_n) + here * out_n, result, mask)


@register("gluon", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns. One launch counts minima, a second writes the gradient."""
    id, tensors = "gluon/min_backward/split_two_launches", (x, y, grad, out)
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.make_block_tile(rows, tiles.BLOCK_BYTES)
    plan, count = tiles.plan_parts(rows, tile, device_of(x)), tile.count_tiles(rows)
    counts = x.new_empty((count, plan.parts, tile.rows), dtype=torch.int64)
    place = (*tensors, counts, *tiles.layout_arguments(rows, tile), *tiles.row_strides(rows, tile, *others), *plan)
    kinds = (wide_type(x.dtype), *tile.kernel_constants(rows))
    both = ((*place, writes, *kinds) for writes in (False, True))
    return chain_launches(*(bind_grid(id, parts_kernel, count * plan.parts, a, tile.warps, tensors=4) for a in both))
