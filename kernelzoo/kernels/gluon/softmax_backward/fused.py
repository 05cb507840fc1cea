"""Softmax's gradient of rows kept on chip. Masked elements are 0 in both inputs, so that they add nothing."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def tile_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_n, y_inner, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, COLS: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Compute a tile of complete rows. COLS: a power of two, not below a row's length without its unaligned ends."""
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, grad_n, y_n = dev.multiply_sizes(n, inner, grad_n, y_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    _, _, out_n, _ = dev.multiply_sizes(n, inner, out_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    grad_start = dev.row_start(group, place, grad_outer, grad_inner, MULTIPLE, ACROSS)[:, None]
    y_start = dev.row_start(group, place, y_outer, y_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(COLS, WIDE_OFFSETS, LAYOUT)
    length, edge, known, grad_edges = dev.load_edges(grad, grad_start, there, n, 0, ACC_DTYPE, EDGES, EDGE_LAYOUT)
    length = gl.cast(length, gl.int32)
    if EDGES:
        y_edges = gl.load(dev.edge_pointers(y, y_start, edge, EDGE_LAYOUT), known, other=0).to(ACC_DTYPE)
    mask = there & (cols < length)
    grad_here = grad + (dev.align(grad_start, EDGES) + here * grad_n)
    grads = dev.load_evict_last(grad_here, mask, 0).to(ACC_DTYPE)
    weights = dev.load_evict_last(y + (dev.align(y_start, EDGES) + here * y_n), mask, 0).to(ACC_DTYPE)
    total = gl.sum(grads * weights, 1, keep_dims=True)
    if EDGES:
        total += gl.convert_layout(gl.sum(grad_edges * y_edges, 1, keep_dims=True), LAYOUT)
        edges = y_edges * (grad_edges - gl.convert_layout(total, EDGE_LAYOUT))
        gl.store(dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT), edges.to(DTYPE), known)
    gl.store(out + (dev.align(out_start, EDGES) + here * out_n), (weights * (grads - total)).to(DTYPE), mask)


@register("gluon", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: both inputs are read once."""
    id, device = "gluon/softmax_backward/fused", device_of(grad)
    rows, (weights,) = layouts_of(grad, out, y)
    tile = tiles.whole_row_tile(id, device, rows, 2, weights)
    kinds = (wide_type(grad.dtype), *tile.kernel_constants(rows, weights))
    args = (grad, y, out, *tiles.layout_arguments(rows, tile, weights), *kinds)
    options = tiles.register_options(device, tile)
    return bind_grid(id, tile_kernel, tile.count_tiles(rows), args, tile.warps, tensors=3, **options)
