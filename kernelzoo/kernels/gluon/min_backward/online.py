import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.device_functions import split_gradient
from kernelzoo.kernels.shared.jit import bind_grid, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def online_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, x_n, out_n = dev.multiply_sizes(gl.cast(n, gl.int64), inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    least = dev.load_per_row(y, group, place, y_outer, y_inner, there, ACC_DTYPE, ACROSS)[:, None]
    slope = dev.load_per_row(grad, group, place, grad_outer, grad_inner, there, ACC_DTYPE, ACROSS)
    there = there[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    length, edge, known, edges = dev.load_edges(x, x_start, there, n, float("nan"), ACC_DTYPE, EDGES, EDGE_LAYOUT)
    if EDGES:
        edges_equal = edges == gl.convert_layout(least, EDGE_LAYOUT)
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    x_start = dev.align(x_start, EDGES)
    out_start = dev.align(out_start, EDGES)
    longest = dev.end_of_vectors(n, EDGES)
    # Every lane counts in 32 bits. Lanes are added up once, after the loop, in 64 bits.
    counts = gl.full([ROWS, BLOCK], 0, gl.int32, LAYOUT)
    for start in range(0, longest, BLOCK):
        mask = there & (cols < length - start)
        block = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("nan")).to(ACC_DTYPE)
        counts += (block == least).to(gl.int32)
    count = gl.sum(counts.to(gl.int64), 1, keep_dims=True)
    if EDGES:
        count += gl.convert_layout(gl.sum(edges_equal.to(gl.int64), 1, keep_dims=True), LAYOUT)
    each, rest = split_gradient(slope[:, None], count, DTYPE)
    if EDGES:
        edge_each = gl.convert_layout(each, EDGE_LAYOUT)
        edge_rest = gl.convert_layout(rest, EDGE_LAYOUT)
        gl.store(out_edges, gl.where(edges_equal, edge_each, edge_rest), known)
    blocks = (longest + BLOCK - 1) // BLOCK
    for i in range(blocks):
        start = (blocks - 1 - i) * BLOCK  # backwards: what was read last is likely still in a cache
        mask = there & (cols < length - start)
        block = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("nan")).to(ACC_DTYPE)
        result = gl.where(block == least, each, rest)
        gl.store(out + (out_start + start * out_n) + here * out_n, result, mask)


@register("gluon", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks counts a row's minima, per lane. A second pass reads again and writes the gradient."""
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.make_block_tile(rows, tiles.BLOCK_BYTES)
    place = (*tiles.layout_arguments(rows, tile), *tiles.row_strides(rows, tile, *others))
    args = (x, y, grad, out, *place, wide_type(x.dtype), *tile.kernel_constants(rows))
    return bind_grid("gluon/min_backward/online", online_kernel, tile.count_tiles(rows), args, tile.warps, tensors=4)
