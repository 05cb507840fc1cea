import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.device_functions import split_gradient
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def tile_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, COLS: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Compute a tile of complete rows. COLS: a power of two, not below a row's length without its unaligned ends."""
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, x_n, out_n = dev.multiply_sizes(n, inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    least = dev.load_per_row(y, group, place, y_outer, y_inner, there, ACC_DTYPE, ACROSS)[:, None]
    slope = dev.load_per_row(grad, group, place, grad_outer, grad_inner, there, ACC_DTYPE, ACROSS)
    there = there[:, None]
    cols, here = dev.column_offsets(COLS, WIDE_OFFSETS, LAYOUT)
    length, edge, known, edges = dev.load_edges(x, x_start, there, n, float("nan"), ACC_DTYPE, EDGES, EDGE_LAYOUT)
    length = gl.cast(length, gl.int32)
    if EDGES:
        edges_equal = edges == gl.convert_layout(least, EDGE_LAYOUT)
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    mask = there & (cols < length)
    x_here = x + (dev.align(x_start, EDGES) + here * x_n)
    equal = dev.load_evict_last(x_here, mask, float("nan")).to(ACC_DTYPE) == least
    count = gl.sum(equal.to(gl.int32), 1, keep_dims=True)
    if EDGES:
        count += gl.convert_layout(gl.sum(edges_equal.to(gl.int32), 1, keep_dims=True), LAYOUT)
    each, rest = split_gradient(slope[:, None], count, DTYPE)
    gl.store(out + (dev.align(out_start, EDGES) + here * out_n), gl.where(equal, each, rest), mask)
    if EDGES:
        edge_each = gl.convert_layout(each, EDGE_LAYOUT)
        edge_rest = gl.convert_layout(rest, EDGE_LAYOUT)
        gl.store(out_edges, gl.where(edges_equal, edge_each, edge_rest), known)


@register("gluon", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: one read, one write."""
    id, device = "gluon/min_backward/fused", device_of(x)
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.whole_row_tile(id, device, rows, 1)
    place = (*tiles.layout_arguments(rows, tile), *tiles.row_strides(rows, tile, *others))
    args = (x, y, grad, out, *place, wide_type(x.dtype), *tile.kernel_constants(rows))
    options = tiles.register_options(device, tile)
    return bind_grid(id, tile_kernel, tile.count_tiles(rows), args, tile.warps, tensors=4, **options)
