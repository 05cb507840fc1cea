"""Tiles for kernels that loop over blocks of a row."""

import torch

from kernelzoo.kernels.helion.tiles import Tile, adjacent_rows_tile, as_columns_if_strided, loop_tile, whole_row_tile
from kernelzoo.kernels.shared.cut import BlockSplit
from kernelzoo.kernels.shared.held_rows import longest_row
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, count_row_parts
from kernelzoo.layout import Rows, cdiv, next_power_of_two

TILE_BYTES = 16384
"""Bytes of a tile in the accumulator dtype: 16 float32 elements for each of 256 threads."""

THREAD_BYTES = 64
"""Bytes of a tile per thread."""


def streaming_tile(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """Return the tile for a kernel that keeps a block of each of ``tensors`` tensors in registers.

    A tile has several short rows, but few enough that each SM has several programs. If rows are strided, a tile has a
    cache line of neighbouring rows.
    """
    device, wide_bytes, bytes = device_of(x), rows.accumulator_bytes, TILE_BYTES // next_power_of_two(tensors)
    if rows.is_strided:
        return loop_tile(rows, bytes)
    cols = min(bytes // wide_bytes, next_power_of_two(rows.n))
    spread = next_power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    many = min(bytes // wide_bytes // cols, spread)
    return adjacent_rows_tile(rows, many, cols, device.warps(many * cols * wide_bytes * tensors // THREAD_BYTES))


def single_read_tile(x: torch.Tensor, rows: Rows) -> Tile:
    """Return the tile for a kernel that reads x once. Blocks of long rows are doubled, for fewer reductions."""
    tile = streaming_tile(x, rows)
    return tile if rows.is_strided or tile.cols >= rows.n else tile._replace(cols=2 * tile.cols)


def whole_row_tile_or_none(id: str, x: torch.Tensor, rows: Rows, tensors: int) -> Tile | None:
    """Return the tile for a kernel that keeps complete rows of ``tensors`` tensors on chip, or None if they don't fit.

    The tile has more than 16 warps only if each thread has four vectors, because an SM may run only one such program.
    """
    if rows.n > longest_row(rows, tensors):
        return None
    tile, device = whole_row_tile(id, device_of(x), rows, tensors), device_of(x)
    return tile._replace(warps=min(tile.warps, max(16, device.warps(tile.cols * rows.itemsize // THREAD_BYTES))))


def tile_and_parts(x: torch.Tensor, rows: Rows) -> tuple[Tile, BlockSplit]:
    """Return (tile, how rows are cut) for a kernel whose programs each read a part of a row. Parts are whole blocks."""
    tile = loop_tile(rows, TILE_BYTES // 2)
    blocks = cdiv(rows.n, tile.cols)
    span = cdiv(blocks, min(count_row_parts(rows, device_of(x)), max(1, blocks))) * tile.cols
    return tile, BlockSplit(max(1, cdiv(rows.n, max(1, span))), span)


def weight_grad_tile(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """Return the tile for a kernel that sums over all rows: a cache line of each, or one element if strided."""
    axes, wide_bytes = as_columns_if_strided(rows), rows.accumulator_bytes
    elements = TILE_BYTES // next_power_of_two(tensors) // wide_bytes
    cols = 1 if rows.is_strided else min(LINE_BYTES // rows.itemsize, next_power_of_two(rows.n))
    inner = min(elements // cols, next_power_of_two(axes.inner))
    outer = min(elements // cols // inner, next_power_of_two(axes.outer))
    return Tile(outer, cols, inner, device_of(x).warps(outer * cols * inner * wide_bytes * tensors // THREAD_BYTES))
