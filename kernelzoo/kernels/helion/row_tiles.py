"""Blocks of rows for kernels that go along a row block by block."""

import torch

from kernelzoo.kernels.helion.tiles import Tile, block, held, placed, side_by_side
from kernelzoo.kernels.shared.cut import Cut
from kernelzoo.kernels.shared.held_rows import longest
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, parts_of
from kernelzoo.layout import Rows, cdiv, power_of_two

TILE_BYTES = 16384
"""Of a tile as computed: 16 float32 elements to each of 256 threads."""

THREAD_BYTES = 64
"""Of a tile as computed, to a thread."""


def tile_of(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """The tile for a kernel that holds so many tensors' elements at each place.

    Short rows are taken together, as long as each multiprocessor has several programs; where memory is contiguous
    across rows, a line of them.
    """
    device, wide, bytes = device_of(x), rows.wide_bytes, TILE_BYTES // power_of_two(tensors)
    if rows.across:
        return block(rows, bytes)
    cols = min(bytes // wide, power_of_two(rows.n))
    spread = power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    many = min(bytes // wide // cols, spread)
    return side_by_side(rows, many, cols, device.warps(many * cols * wide * tensors // THREAD_BYTES))


def reading_tile(x: torch.Tensor, rows: Rows) -> Tile:
    """The tile for a kernel that reads once: of long rows twice the elements to a thread, which meet half as often."""
    tile = tile_of(x, rows)
    return tile if rows.across or tile.cols >= rows.n else tile._replace(cols=2 * tile.cols)


def held_of(id: str, x: torch.Tensor, rows: Rows, tensors: int) -> Tile | None:
    """The tile for a kernel that holds whole rows, of so many tensors; None if they are too long.

    More than 16 warps, of which a multiprocessor may hold but one program, need four vectors to a thread.
    """
    if rows.n > longest(rows, tensors):
        return None
    tile, device = held(id, device_of(x), rows, tensors), device_of(x)
    return tile._replace(warps=min(tile.warps, max(16, device.warps(tile.cols * rows.itemsize // THREAD_BYTES))))


def in_parts(x: torch.Tensor, rows: Rows) -> tuple[Tile, Cut]:
    """The tile for a kernel that takes a part of a row, or of columns, and parts of whole blocks."""
    tile = block(rows, TILE_BYTES // 2)
    blocks = cdiv(rows.n, tile.cols)
    span = cdiv(blocks, min(parts_of(rows, device_of(x)), max(1, blocks))) * tile.cols
    return tile, Cut(max(1, cdiv(rows.n, max(1, span))), span)


def columns_of(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """The tile for a kernel whose programs go through all rows: a line of memory of each, or one element of many."""
    lies, wide = placed(rows), rows.wide_bytes
    elements = TILE_BYTES // power_of_two(tensors) // wide
    cols = 1 if rows.across else min(LINE_BYTES // rows.itemsize, power_of_two(rows.n))
    inner = min(elements // cols, power_of_two(lies.inner))
    outer = min(elements // cols // inner, power_of_two(lies.outer))
    return Tile(outer, cols, inner, device_of(x).warps(outer * cols * inner * wide * tensors // THREAD_BYTES))
