"""Launch numbers of the tiles of short rows that programs hold."""

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.tiles import Tile
from kernelzoo.layout import Rows
from kernelzoo.tables import knob, numbers


@numbers
class Numbers:
    """Shipped values are those of an H200."""

    tile_bytes: int = knob(
        8192, among=(4096, 8192, 16384), unit="bytes", why="of short rows as computed, which a program holds"
    )
    tiles_per_sm: int = knob(
        16, among=(4, 8, 16, 32), unit="tiles", why="such tiles are made no larger than leaves each SM so many"
    )
    ragged: int = knob(
        256, among=(128, 256, 512), unit="elements",
        why="of a row in half precision that begins anywhere, from which on a program has one, and reads vectors",
    )  # fmt: skip
    half: int = knob(
        1024, among=(512, 1024), unit="elements", why="of any other row in half precision, from which on it does"
    )
    wide: int = knob(384, among=(384, 512, 1024), unit="elements", why="of a row in float32, from which on it does")


def short_tile(knobs: Numbers, device: Device, rows: Rows, inputs: int) -> Tile | None:
    """A tile of short rows side by side, None where a program holds no two."""
    return tiles.short_tile(knobs.tile_bytes, knobs.tiles_per_sm, device, rows, inputs)


def is_alone(knobs: Numbers, rows: Rows, x: torch.Tensor) -> bool:
    """Whether a program is better given one row than several: of several that begin anywhere it reads elements alone,
    and how a tile of long ones lies on threads is the compiler's choice."""
    if rows.itemsize > 2:
        return rows.n >= knobs.wide
    return rows.n >= (knobs.ragged if tiles.is_ragged(rows, x) else knobs.half)


def short_or_refuse(knobs: Numbers, device: Device, rows: Rows, inputs: int, id: str) -> Tile:
    """``short_tile``. Raises UnsupportedProblemError where there is none."""
    tile = short_tile(knobs, device, rows, inputs)
    if tile is None:
        raise UnsupportedProblemError(id, f"a tile holds no two rows of {rows.n} elements along memory")
    return tile
