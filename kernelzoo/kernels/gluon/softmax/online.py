"""After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867)."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.softmax.device_functions import online_state
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.jit import bind_grid, wide_dtype, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def online_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, LOWEST: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, x_n, out_n = dev.multiply_sizes(gl.cast(n, gl.int64), inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    length, edge, known, edges = dev.load_edges(x, x_start, there, n, float("-inf"), ACC_DTYPE, EDGES, EDGE_LAYOUT)
    if EDGES:
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    x_start = dev.align(x_start, EDGES)
    out_start = dev.align(out_start, EDGES)
    longest = dev.end_of_vectors(n, EDGES)
    row_top = gl.full([ROWS, 1], LOWEST, ACC_DTYPE, LAYOUT)
    if EDGES:
        row_top = gl.maximum(row_top, gl.convert_layout(gl.max(edges, 1, keep_dims=True), LAYOUT))
    row_top, row_total = online_state(
        x, x_start, x_n, here, cols, there, 0, longest, length, row_top, ACC_DTYPE, LOWEST, ROWS, BLOCK, LAYOUT
    )
    if EDGES:
        edges = exponential(edges - gl.convert_layout(row_top, EDGE_LAYOUT))
        row_total += gl.convert_layout(gl.sum(edges, 1, keep_dims=True), LAYOUT)
    inverse = 1.0 / row_total
    if EDGES:
        gl.store(out_edges, (edges * gl.convert_layout(inverse, EDGE_LAYOUT)).to(DTYPE), known)
    blocks = (longest + BLOCK - 1) // BLOCK
    for i in range(blocks):
        start = (blocks - 1 - i) * BLOCK  # backwards: what was read last is likely still in a cache
        mask = there & (cols < length - start)
        tile = gl.load(x + (x_start + start * x_n) + here * x_n, mask, other=float("-inf"))
        result = exponential(tile.to(ACC_DTYPE) - row_top) * inverse
        gl.store(out + (out_start + start * out_n) + here * out_n, result.to(DTYPE), mask)


@register("gluon", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running (max, sum) state in each lane. A second pass reads again and writes."""
    rows = rows_of(x, out)
    tile = tiles.make_block_tile(rows, tiles.BLOCK_BYTES)
    kinds = (wide_type(x.dtype), tiles.lowest_finite(wide_dtype(x.dtype)), *tile.kernel_constants(rows))
    args = (x, out, *tiles.layout_arguments(rows, tile), *kinds)
    return bind_grid("gluon/softmax/online", online_kernel, tile.count_tiles(rows), args, tile.warps)
