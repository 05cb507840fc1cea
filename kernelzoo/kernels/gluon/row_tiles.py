"""Layouts of tiles for kernels that go along a row block by block.

A tile is [ROWS, BLOCK]: rows in the order of their numbers, and elements of each. A thread has neighbours in memory,
along a row or across rows, as long as one load can take them.
"""

from typing import Any

from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon.tiles import LANES
from kernelzoo.kernels.shared.pack_tiles import vector_across, vector_along
from kernelzoo.kernels.shared.row_tiles import Tile
from kernelzoo.layout import Rows


def laid_out(rows: Rows, tile: Tile) -> tuple[Any, ...]:
    """Programs and warps of a kernel, and its ROWS, BLOCK and LAYOUT."""
    return tile.programs, tile.warps, tile.rows, tile.block, layout_of(rows, tile.rows, tile.block, tile.warps)


def layout_of(rows: Rows, many: int, block: int, warps: int) -> gl.BlockedLayout:
    """Threads side by side in memory; warps on rows of their own, if there are enough."""
    if rows.across:
        vector = min(vector_across(rows), many)
        lanes = min(LANES, many // vector)
        return gl.BlockedLayout([vector, 1], [lanes, LANES // lanes], [1, warps], [0, 1])
    vector = min(vector_along(rows), block)
    lanes = min(LANES, block // vector)
    apart = min(warps, max(1, many * lanes // LANES))
    return gl.BlockedLayout([1, vector], [LANES // lanes, lanes], [apart, warps // apart], [1, 0])
