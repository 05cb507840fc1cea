import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.device_functions import TOGETHER
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_dtype, wide_type
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def parts_kernel(
    grad, y, out, sums, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, y_outer, y_n, y_inner, parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr,
    WRITES: gl.constexpr, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    """Store one part's partial results. If WRITES, merge those of all parts instead, and write the part's output. A
    part has ``span`` units of UNIT elements per row, part 0 also the unaligned ends. PARTS: a power of two >= parts."""
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, grad_n, y_n = dev.multiply_sizes(gl.cast(n, gl.int64), inner, grad_n, y_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    _, _, out_n, _ = dev.multiply_sizes(n, inner, out_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    number, part = dev.tile_and_part(parts)
    group, place, there = dev.row_coords(number, rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    grad_start = dev.row_start(group, place, grad_outer, grad_inner, MULTIPLE, ACROSS)[:, None]
    y_start = dev.row_start(group, place, y_outer, y_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    begin, end = dev.part_range(part, span, UNIT)
    has_edges = there & (part == 0)
    length, edge, known, grad_edges = dev.load_edges(grad, grad_start, has_edges, n, 0, ACC_DTYPE, EDGES, EDGE_LAYOUT)
    if EDGES:
        y_edges = gl.load(dev.edge_pointers(y, y_start, edge, EDGE_LAYOUT), known, other=0).to(ACC_DTYPE)
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    grad_start = dev.align(grad_start, EDGES)
    y_start = dev.align(y_start, EDGES)
    out_start = dev.align(out_start, EDGES)
    length = gl.minimum(length, end)
    end = gl.minimum(end, n)
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    left = sums + number.to(gl.int64) * ROWS * parts + lane
    if not WRITES:
        running = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
        total = gl.full([ROWS], 0.0, ACC_DTYPE, gl.SliceLayout(1, LAYOUT))
        for start in range(begin, end, BLOCK):
            mask = there & (cols < length - start)
            grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(ACC_DTYPE)
            weights = gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(ACC_DTYPE)
            running += grads * weights
            done = gl.cast(start - begin, gl.int64) % (TOGETHER * BLOCK)
            if (done == (TOGETHER - 1) * BLOCK) | (start + BLOCK >= end):
                total += gl.sum(running, 1)
                running = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
        if EDGES:
            total += gl.convert_layout(gl.sum(grad_edges * y_edges, 1), gl.SliceLayout(1, LAYOUT))
        gl.store(left + part * ROWS, total)
    else:
        # Every program adds up all sums of its rows in the same order, so all get the same bits.
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        total = gl.sum(gl.load(left[:, None] + peer * ROWS, peer < parts, other=0.0), 1, keep_dims=True)
        if EDGES:
            edges = y_edges * (grad_edges - gl.convert_layout(total, EDGE_LAYOUT))
            gl.store(out_edges, edges.to(DTYPE), known)
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for i in range(blocks):
            start = begin + (blocks - 1 - i) * BLOCK  # backwards: what was read last is likely still in L2
            mask = there & (cols < length - start)
            grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(ACC_DTYPE)
            weights = gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(ACC_DTYPE)
            gl.store(out + (out_start + start * out_n) + here * out_n, (weights * (grads - total)).to(DTYPE), mask)


@register("gluon", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns. One launch stores sums, a second adds them up and writes."""
    id = "gluon/softmax_backward/split_two_launches"
    rows, (weights,) = layouts_of(grad, out, y)
    tile = tiles.make_block_tile(rows, tiles.BLOCK_BYTES, weights)
    plan, count = tiles.plan_parts(rows, tile, device_of(grad), weights), tile.count_tiles(rows)
    sums = grad.new_empty((count, plan.parts, tile.rows), dtype=wide_dtype(grad.dtype))
    place = (grad, y, out, sums, *tiles.layout_arguments(rows, tile, weights), *plan)
    kinds = (wide_type(grad.dtype), *tile.kernel_constants(rows, weights))
    both = ((*place, writes, *kinds) for writes in (False, True))
    return chain_launches(*(bind_grid(id, parts_kernel, count * plan.parts, a, tile.warps, tensors=3) for a in both))
