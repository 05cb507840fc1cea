"""A program takes whole rows, several short ones or one. Each block of a row is reduced to a scalar at once."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import end_of_vectors, lower
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.min.lowest import body_and_edges, folded, lowest
from kernelzoo.kernels.triton.min.tiles import RowNumbers, fold_of, row_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, identity, plain, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@triton.jit
def rows_kernel(
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
    least = tl.full([ROWS], IDENTITY, WIDE)
    for first in range(0, end_of_vectors(n, EDGES), BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = lower(least, lowest(folded(block.to(WIDE), ROWS, BLOCK, FOLD)))
    least = lower(least, lowest(edges))  # last, so that nothing waits for the edges before the rest is under way
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


@register("triton", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    edges = edges_of(rows)
    tile = row_tile(of(RowNumbers, device.index), rows, x.dtype, edges)
    constants = (wide_type(x.dtype), identity(x.dtype), edges, fold_of(rows, x.dtype, tile.block))
    args = (x, out, *row_arguments(rows), *constants, tile.rows, tile.block)
    programs = cdiv(rows.total, tile.rows)
    return bound("triton/min/rows", x, rows_kernel, programs, args, device.warps(tile.threads))
