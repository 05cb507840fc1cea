import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import end_of_vectors, min_or_nan
from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.min.lowest import choose_fold, fold_columns, load_edges, row_minima
from kernelzoo.kernels.triton.min.tiles import TILE_ELEMENTS, Knobs, Tile, block_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, bool_as_uint8, cdiv, min_identity, next_power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of


@form_knobs
class RowKnobs(Knobs):
    # Eight 16-byte loads per lane. No warp waits for another.
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )
    row_bytes: int = knob(
        32768,
        among=(16384, 32768, 65536),
        unit="bytes",
        why="of a row that is read at once, or in halves at the most: nothing to defer",
    )


@triton.jit
def rows_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, IDENTITY: tl.constexpr, EDGES: tl.constexpr, FOLD: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    start, columns, edges = load_edges(x, x_start, n, in_rows, ACC_DTYPE, IDENTITY, EDGES, ROWS)
    least = tl.full([ROWS], IDENTITY, ACC_DTYPE)
    for first in range(0, end_of_vectors(n, EDGES), BLOCK):
        here = first + cols[None, :]
        mask = in_rows & (here < columns)
        block = tl.load(x + (start + here * x_n), mask, other=IDENTITY, eviction_policy="evict_first")
        least = min_or_nan(least, row_minima(fold_columns(block.to(ACC_DTYPE), ROWS, BLOCK, FOLD)))
    least = min_or_nan(least, row_minima(edges))  # last, so that all other loads are issued before a wait for the edges
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least.to(out.dtype.element_ty), row < rows)


def row_tile(knobs: RowKnobs, rows: Rows, dtype: torch.dtype, edges: int) -> Tile:
    """Return the tile of ``rows``: several short rows, one row that is read at once, or a block of a long row."""
    columns = next_power_of_two(rows.n // edges * edges if edges else rows.n)
    if rows.is_strided or columns * dtype.itemsize > knobs.row_bytes:
        return block_tile(knobs, rows, dtype)
    # 64 bytes per thread, or more if the tile has a single warp.
    block = min(columns, TILE_ELEMENTS)
    most = knobs.warp_bytes // dtype.itemsize if dtype.itemsize > 1 else TILE_ELEMENTS // 4
    # A thread for every 64 bytes of the row. Half precision counts the padded tile, for at most 32 elements per thread.
    threads = max(32, (block if dtype.itemsize == 2 else min(rows.n, block)) * dtype.itemsize // 64)
    return Tile(max(1, most // block), block, next_power_of_two(threads + 1) // 2)


@register("triton", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes complete rows. Every block of a row is reduced to one number before blocks are combined."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    rows, device = rows_of(x, out), device_of(x)
    edges = edge_vector_size(rows)
    tile = row_tile(of(RowKnobs, device.index), rows, x.dtype, edges)
    constants = (wide_type(x.dtype), min_identity(x.dtype), edges, choose_fold(rows, x.dtype, tile.block))
    args = (x, out, *row_arguments(rows), *constants, tile.rows, tile.block)
    programs = cdiv(rows.total, tile.rows)
    return bind_grid("triton/min/rows", rows_kernel, programs, args, device.warps(tile.threads))
