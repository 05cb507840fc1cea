"""Layouts of tiles for kernels that loop over rows in blocks.

A tile is [ROWS, BLOCK]: consecutive rows x elements of each. A thread has adjacent elements in memory, as many as one
load can take. If rows are columns in memory, they are elements of several rows.
"""

from typing import Any

from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon.tiles import LANES
from kernelzoo.kernels.shared.pack_tiles import row_vector_width, strided_vector_width
from kernelzoo.kernels.shared.row_tiles import Tile
from kernelzoo.layout import Rows


def make_tile_launch_arguments(rows: Rows, tile: Tile) -> tuple[Any, ...]:
    """Return (programs, warps, ROWS, BLOCK, LAYOUT) of a kernel."""
    return tile.programs, tile.warps, tile.rows, tile.block, choose_layout(rows, tile.rows, tile.block, tile.warps)


def choose_layout(rows: Rows, tile_rows: int, block: int, warps: int) -> gl.BlockedLayout:
    """Return a tile's layout. Adjacent threads load adjacent memory. Warps take different rows if possible."""
    if rows.is_strided:
        vector = min(strided_vector_width(rows), tile_rows)
        lanes = min(LANES, tile_rows // vector)
        return gl.BlockedLayout([vector, 1], [lanes, LANES // lanes], [1, warps], [0, 1])
    vector = min(row_vector_width(rows), block)
    lanes = min(LANES, block // vector)
    apart = min(warps, max(1, tile_rows * lanes // LANES))
    return gl.BlockedLayout([1, vector], [LANES // lanes, lanes], [apart, warps // apart], [1, 0])
