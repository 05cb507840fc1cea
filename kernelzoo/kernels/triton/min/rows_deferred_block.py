"""A program takes whole rows block by block; the running minimum stays a tile until the row has ended."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.min.arguments import fold_of, identity, plain
from kernelzoo.kernels.triton.min.lowest import body_and_edges, end_of_vectors, folded, lower, lowest, nothing_yet
from kernelzoo.kernels.triton.min.tiles import Numbers, block_tile, once_tile
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def rows_deferred_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    start, columns, edges = body_and_edges(x, x_start, n, in_rows, WIDE, IDENTITY, EDGES, ROWS)
    least = nothing_yet(n, ROWS, BLOCK, WIDE, IDENTITY)
    for first in range(0, end_of_vectors(n, EDGES), BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, block.to(WIDE))
    least = lower(lowest(folded(least, ROWS, BLOCK, FOLD), 1), lowest(edges, 1))
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@register("triton", "min", "rows_deferred_block")
def rows_deferred_block(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    numbers = of(Numbers, device.index)
    edges = edges_of(rows)
    tile = once_tile(numbers, rows, x.dtype, device, edges)
    if tile is None:
        tile = block_tile(numbers, rows, x.dtype)
        if tile.block * x.element_size() == numbers.tile_bytes:
            # More programs share an SM; of half precision a thread has a vector of each block.
            tile = tile._replace(block=tile.block // (4 if x.element_size() == 2 else 2))
    constants = (wide_type(x.dtype), identity(x.dtype), edges, fold_of(rows, x.dtype, tile.block))
    args = (x, out, *row_arguments(rows), *constants, tile.rows, tile.block)
    programs = cdiv(rows.total, tile.rows)
    return bound("triton/min/rows_deferred_block", x, rows_deferred_kernel, programs, args, device.warps(tile.threads))
