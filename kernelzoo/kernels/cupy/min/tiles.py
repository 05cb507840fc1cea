"""How many threads and blocks take a row, and how blocks take tiles of columns: ``struct Tile`` of column_tile.cuh."""

import math
from dataclasses import dataclass

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument
from kernelzoo.kernels.cupy.rows import WARP
from kernelzoo.layout import VECTOR_BYTES, Columns, cdiv, power_of_two
from kernelzoo.tables import knob, numbers

ITEMS = 8  # loads of 16 bytes in flight per thread: 128 kB an SM, three times what memory's latency takes
THREADS = 256  # in a block, where an SM has several blocks
SPLIT_LANES = 32  # across a tile whose columns are shared: 512 bytes


@numbers
class Numbers:
    """Blocks of all rows, or columns, together where several blocks share one."""

    # Two of 256 threads have enough loads on their way; four, which an SM has the registers for, are more to wait for.
    blocks_per_sm: int = knob(2, among=(2, 3, 4, 6, 8), unit="blocks", why="of split rows and of atomics, on each SM")
    column_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="on each SM, of columns that several share")


@dataclass(frozen=True)
class Tile:
    """Neighbouring rows that one block takes."""

    width: int  # elements that a lane reads at once: a word, or one
    lanes: int
    depths: int  # lines read at a time
    step: int  # rows from a tile to the next
    across: int  # tiles side by side
    count: int

    @property
    def threads(self) -> int:
        return cdiv(self.lanes * self.depths, WARP) * WARP

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the kernels take of it."""
        return (I64, self.across), (I32, self.step), (I32, self.lanes), (I32, self.depths)


def whole_tile(columns: Columns, device: Device) -> Tile:
    """Columns that no blocks share: 128 bytes across, or more where that leaves 1.5 to 3 blocks an SM."""
    words, sms = columns.outer * cdiv(columns.inner * columns.itemsize, VECTOR_BYTES), device.multiprocessors
    lanes = max(8, min(64, power_of_two(words // (3 * sms))))
    # Of lines that begin anywhere in words, each loses one: as wide as leaves 1.25 blocks an SM.
    if columns.vector < VECTOR_BYTES // columns.itemsize:
        lanes = next((wide for wide in (64, 32, 16) if 4 * words >= 5 * sms * (wide - 1)), 8)
    tile = _tile(columns, lanes, THREADS)
    return tile if tile.count > device.multiprocessors else _tile(columns, lanes, 2 * THREADS)


def shared_tile(columns: Columns, device: Device, column_blocks: int) -> tuple[Tile, int]:
    """Columns that blocks share, so many of those an SM: a tile, and how many blocks take it."""
    tile = _tile(columns, SPLIT_LANES, THREADS)
    most = max(1, column_blocks * device.multiprocessors // tile.count)
    return tile, min(cdiv(columns.n, tile.depths * ITEMS), most)


def _tile(columns: Columns, lanes: int, threads: int) -> Tile:
    """A tile of at most so many words across, or single elements, in a block of at most so many threads."""
    inner, width = columns.inner, VECTOR_BYTES // columns.itemsize
    if columns.x_inner != 1 or min(inner, columns.x_n) < width:  # single elements
        width, around, threads = 1, 1, min(threads, THREADS)
        step = lanes = min(WARP, inner)
    else:
        # Lines that begin within a word touch one more. Others' tiles keep to 64 bytes, what memory gives at once.
        spare, piece = (0, 4 * width) if columns.vector == width else (width - 1, width)
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
