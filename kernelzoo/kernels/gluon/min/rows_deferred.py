import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min.tiles import block_tile, min_constants
from kernelzoo.kernels.shared.jit import bind_grid, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@gluon.jit
def rows_deferred_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    ACC_DTYPE: gl.constexpr, IDENTITY: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    dev.await_last_launch()
    n, inner, x_n, _ = dev.multiply_sizes(gl.cast(n, gl.int64), inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    in_rows = there[:, None]
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    length, _, _, edges = dev.load_edges(x, x_start, in_rows, n, IDENTITY, ACC_DTYPE, EDGES, EDGE_LAYOUT)
    x_start = dev.align(x_start, EDGES)
    running = gl.full([ROWS, BLOCK], IDENTITY, ACC_DTYPE, LAYOUT)
    for start in range(0, dev.end_of_vectors(n, EDGES), BLOCK):
        block_here = x + (x_start + start * x_n) + here * x_n
        mask = in_rows & (cols < length - start)
        block = gl.load(block_here, mask, other=IDENTITY, eviction_policy="evict_first")
        running = dev.min_or_nan(running, block.to(ACC_DTYPE))
    least = gl.reduce(running, 1, dev.min_or_nan)
    if EDGES:
        least = dev.min_or_nan(least, gl.convert_layout(gl.reduce(edges, 1, dev.min_or_nan), gl.SliceLayout(1, LAYOUT)))
    out_start = dev.row_start(group, place, out_outer, out_inner, 1, ACROSS)
    gl.store(out + out_start, least.to(out.dtype.element_ty), there)


@register("gluon", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes rows or a strip of columns. It keeps a tile of running minima, and reduces it at the end."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    rows = rows_of(x, out)
    tile = block_tile(device_of(x), rows)
    args = (x, out, *tiles.layout_arguments(rows, tile), *min_constants(rows, x.dtype, tile))
    return bind_grid("gluon/min/rows_deferred", rows_deferred_kernel, tile.count_tiles(rows), args, tile.warps)
