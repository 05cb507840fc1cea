import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.softmax.device_functions import compute_softmax, softmax_with_edges
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, WIDE_OFFSETS: gl.constexpr,
    ROWS: gl.constexpr, COLS: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Compute a tile of complete rows. COLS: a power of two, not below a row's length without its unaligned ends."""
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, x_n, out_n = dev.multiply_sizes(n, inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(COLS, WIDE_OFFSETS, LAYOUT)
    length, edge, known, edges = dev.load_edges(x, x_start, there, n, float("-inf"), ACC_DTYPE, EDGES, EDGE_LAYOUT)
    length = gl.cast(length, gl.int32)
    mask = there & (cols < length)
    tile = dev.load_evict_last(x + (dev.align(x_start, EDGES) + here * x_n), mask, float("-inf"))
    out_here = out + (dev.align(out_start, EDGES) + here * out_n)
    if EDGES:
        result, edges = softmax_with_edges(tile.to(ACC_DTYPE), edges, LAYOUT, EDGE_LAYOUT)
        gl.store(out_here, result.to(DTYPE), mask)
        gl.store(dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT), edges.to(DTYPE), known)
    else:
        gl.store(out_here, compute_softmax(tile.to(ACC_DTYPE)).to(DTYPE), mask)


@register("gluon", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: one read, one write."""
    id, rows, device = "gluon/softmax/fused", rows_of(x, out), device_of(x)
    tile = tiles.whole_row_tile(id, device, rows, 1)
    args = (x, out, *tiles.layout_arguments(rows, tile), wide_type(x.dtype), *tile.kernel_constants(rows))
    return bind_grid(id, tile_kernel, tile.count_tiles(rows), args, tile.warps, **tiles.register_options(device, tile))
