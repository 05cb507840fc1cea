"""Plans that split each row among several programs, for kernels that loop over the blocks of a row."""

from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.layout import cdiv, power_of_two

CROWD = 4
"""Programs per SM that fill the device."""

LEAST_PART = 4096
"""The fewest elements, of all rows of a tile together, that are worth a program of their own."""

MOST_PARTS = 512
"""The most programs per tile. Each of them, or the last one, reads the partial results of all."""


class Cut(NamedTuple):
    """The number of programs per tile (``parts``), and of blocks of each row per program (``span``)."""

    parts: int
    span: int

    @property
    def merged(self) -> int:
        """The number of partial results, rounded up to a power of two."""
        return power_of_two(self.parts)


def into(parts: int, blocks: int) -> Cut:
    """Split that many blocks into at most that many parts, none of them empty."""
    span = cdiv(blocks, parts)
    return Cut(cdiv(blocks, span), span)


def cut(blocks: int, tiles: int, elements: int, device: Device, most: int = MOST_PARTS) -> Cut:
    """Split rows so that the programs fill the device, into at least two parts if a row has two blocks.

    blocks: the blocks of a row. tiles: the tiles that cover all rows. elements: those of all rows of a tile.
    """
    wanted = cdiv(CROWD * device.multiprocessors, max(1, tiles))
    return into(max(1, min(blocks, max(2, min(wanted, most, elements // LEAST_PART)))), blocks)


def streamed(tiles: int, device: Device) -> str:
    """Return a gradient's form for rows that don't fit on chip: online if tiles are many, else split_two_launches."""
    return "online" if tiles >= CROWD * device.multiprocessors else "split_two_launches"
