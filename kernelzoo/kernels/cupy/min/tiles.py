"""How blocks share the rows and columns whose minima they find. See ``struct Tile`` in column_tile.cuh."""

import math
from dataclasses import dataclass

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument
from kernelzoo.kernels.cupy.rows import WARP
from kernelzoo.layout import VECTOR_BYTES, Columns, cdiv, next_power_of_two
from kernelzoo.tables import form_knobs, knob

ITEMS = 8  # loads of 16 bytes in flight per thread: 128 kB per SM, three times what hides memory latency
THREADS = 256  # per block, if an SM runs several blocks
SPLIT_LANES = 32  # across a tile that several blocks share: they read 512 bytes


@form_knobs
class Knobs:
    """The number of blocks per SM if several blocks share a row or column."""

    # Two blocks of 256 threads have enough loads in flight. An SM has registers for four, but loads then wait longer.
    blocks_per_sm: int = knob(2, among=(2, 3, 4, 6, 8), unit="blocks", why="of split rows and of atomics, on each SM")
    column_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="on each SM, of columns that several share")


@dataclass(frozen=True)
class Tile:
    """A tile of adjacent columns, and how the threads of a block read it."""

    width: int  # elements that a lane reads at once: a 16-byte vector, or one
    lanes: int  # across the columns
    depths: int  # lines read at a time
    step: int  # columns from one tile to the next
    across: int  # tiles across adjacent columns
    count: int  # tiles in total

    @property
    def threads(self) -> int:
        return cdiv(self.lanes * self.depths, WARP) * WARP

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The kernel's arguments that describe the tile."""
        return (I64, self.across), (I32, self.step), (I32, self.lanes), (I32, self.depths)


def choose_one_block_tile(columns: Columns, device: Device) -> Tile:
    """Return a tile of columns for one block. It is 128 bytes wide, or wider if 1.5 blocks per SM remain."""
    words, sms = columns.outer * cdiv(columns.inner * columns.itemsize, VECTOR_BYTES), device.multiprocessors
    lanes = max(8, min(64, next_power_of_two(words // (3 * sms))))
    # If lines may begin inside a vector, each needs a vector more. A tile is then as wide as leaves 1.25 blocks per SM.
    if columns.load_width < VECTOR_BYTES // columns.itemsize:
        lanes = next((wide for wide in (64, 32, 16) if 4 * words >= 5 * sms * (wide - 1)), 8)
    tile = _make_tile(columns, lanes, THREADS)
    return tile if tile.count > device.multiprocessors else _make_tile(columns, lanes, 2 * THREADS)


def choose_multi_block_tile(columns: Columns, device: Device, column_blocks: int) -> tuple[Tile, int]:
    """Return (tile of columns, number of blocks that share each tile), for ``column_blocks`` blocks per SM."""
    tile = _make_tile(columns, SPLIT_LANES, THREADS)
    most = max(1, column_blocks * device.multiprocessors // tile.count)
    return tile, min(cdiv(columns.n, tile.depths * ITEMS), most)


def _make_tile(columns: Columns, lanes: int, threads: int) -> Tile:
    """Return a tile at most ``lanes`` vectors or elements wide, for a block of at most ``threads`` threads."""
    inner, width = columns.inner, VECTOR_BYTES // columns.itemsize
    if columns.x_inner != 1 or min(inner, columns.x_n) < width:  # single elements
        width, around, threads = 1, 1, min(threads, THREADS)
        step = lanes = min(WARP, inner)
    else:
        # A line that begins inside a vector touches one more. Otherwise tiles are multiples of 64 bytes wide.
        spare, piece = (0, 4 * width) if columns.load_width == width else (width - 1, width)
        around = width // math.gcd(width, columns.x_n)
        lanes = min(lanes, threads // around)
        step = inner
        if inner + spare > lanes * width:
            tiles = cdiv(inner, (lanes - (spare > 0)) * width)
            step = cdiv(inner, tiles * piece) * piece
        lanes = cdiv(step + spare, width)
    depths = min(threads // lanes // around, cdiv(columns.n, ITEMS * around)) * around
    across = cdiv(inner, step)
    return Tile(width, lanes, min(depths, columns.n), step, across, columns.outer * across)
