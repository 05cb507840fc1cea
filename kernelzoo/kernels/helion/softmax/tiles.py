"""Launch numbers of the tiles that programs hold on chip, and the launch of tile_kernel."""

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.softmax.tile_kernel import tile_kernel
from kernelzoo.kernels.helion.tiles import Tile, side_by_side, wide_bytes
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, power_of_two, rows_of
from kernelzoo.tables import knob, numbers

ON_CHIP_BYTES = 32768 * 4
"""The widest row one program holds in registers: 1024 threads (the most a program may have) times 32 elements of
float32, or 16 of float64, which leaves half of the 64 registers a thread has then for everything else."""


@numbers
class Numbers:
    row_elements: int = knob(
        16, among=(8, 16, 32), unit="elements", why="to a thread of a program that holds one row of wide elements"
    )
    half_elements: int = knob(
        32, among=(16, 32), unit="elements", why="to a thread of a program that holds one row of half precision"
    )
    full_row: int = knob(
        16384, among=(4096, 8192, 16384), unit="elements", why="of a row for which a program takes the most threads"
    )
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of short rows as computed, which one warp holds"
    )
    tiles_per_sm: int = knob(
        16, among=(4, 8, 16, 32), unit="tiles", why="such tiles are made no larger than leaves each SM so many"
    )
    ragged: int = knob(
        256, among=(128, 256, 512), unit="elements",
        why="of a row that begins anywhere, from which on a program has one, and reads vectors",
    )  # fmt: skip


def row_threads(knobs: Numbers, rows: Rows) -> int:
    """Threads for one row: no more than the row itself can feed, however wide its tile is; of half precision as many as
    the tile can, unless the row begins anywhere."""
    n = rows.n
    if rows.itemsize == 8:
        threads = power_of_two(n) // 8
    elif n >= knobs.full_row:
        threads = 1024
    else:
        fed = n if tiles.uneven(rows) else power_of_two(n)
        threads = fed // knobs.half_elements if rows.itemsize == 2 else n // knobs.row_elements
    return power_of_two(max(32, min(threads, 1024)) + 1) // 2


def row_tile(knobs: Numbers, device: Device, rows: Rows, inputs: int, id: str) -> Tile:
    """A tile of one row. inputs: how many tensors of n elements a row are held.

    Raises UnsupportedProblemError if no program can hold a row.
    """
    most = ON_CHIP_BYTES // wide_bytes(rows) // inputs
    if rows.n > most:
        raise UnsupportedProblemError(id, f"a row must fit on chip, {most} of {rows.dtype}; got {rows.n}")
    threads = min(1024, row_threads(knobs, rows) * inputs)
    return side_by_side(rows, 1, power_of_two(rows.n), device.warps(threads))


def short_tile(knobs: Numbers, device: Device, rows: Rows, inputs: int) -> Tile | None:
    """A tile of short rows side by side, which one warp holds; None where a warp holds no two."""
    cols = power_of_two(rows.n)
    many = knobs.warp_bytes // wide_bytes(rows) // inputs // cols
    if rows.across or many < 2:
        return None
    even = power_of_two(1 + rows.total // (knobs.tiles_per_sm * device.multiprocessors))
    return side_by_side(rows, min(many, even), cols, 1)


def short_or_refuse(knobs: Numbers, device: Device, rows: Rows, inputs: int, id: str) -> Tile:
    """``short_tile``. Raises UnsupportedProblemError where there is none."""
    tile = short_tile(knobs, device, rows, inputs)
    if tile is None:
        raise UnsupportedProblemError(id, f"no warp holds several rows of {rows.n} elements along memory")
    return tile


def launch_of_tiles(id: str, x: torch.Tensor, out: torch.Tensor, tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles."""
    views = tiles.seen(rows_of(x, out), x, out)
    kinds, far = (tiles.wide(x),), tiles.far(*views)
    blocks = tile.outer, tile.inner
    program = Program(tile_kernel, tiles.examples(*views), 0, kinds, blocks, (1, 0), tile.warps, far)
    return bound(id, program, views, views)
