"""How rows are cut where several programs take each."""

from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.gluon.tiles import Tile, inside, vector_of
from kernelzoo.layout import Rows, Strides, cdiv, power_of_two

CROWD = 4
"""Programs per SM that fill the device."""

LEAST_PART = 4096
"""Elements of a tile's rows together that are worth a program of their own."""

MOST_PARTS = 256
"""Programs to a tile, at the most: each, or the last, reads what all of them have left."""


class Cut(NamedTuple):
    """Programs to a tile of rows, elements of each row that one takes, in units that its vectors divide, and the tile
    of words that all of them have left."""

    parts: int
    span: int
    unit: int
    merged: int


def cut(rows: Rows, tile: Tile, device: Device, *others: Strides) -> Cut:
    """Parts of rows, at least two where a row has so many vectors, for as many programs as fill the device."""
    unit = 1 if tile.across else vector_of(rows, *others)
    elements = rows.n if tile.across else inside(rows, *others)
    wanted = cdiv(CROWD * device.multiprocessors, tile.count(rows))
    most = min(MOST_PARTS, tile.rows * elements // LEAST_PART, max(2, tile.cols))
    parts = max(2, min(wanted, most))
    span = cdiv(elements, parts * unit)
    parts = cdiv(elements, span * unit)
    return Cut(parts, span, unit, power_of_two(parts))
