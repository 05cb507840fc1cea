"""Plans that split each row among several programs, for kernels that loop over the blocks of a row."""

from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.layout import cdiv, next_power_of_two

CROWD = 4
"""How many programs per SM are enough to fill the device."""

LEAST_PART = 4096
"""The fewest elements per program that make it worthwhile, counted over all rows of its tile."""

MOST_PARTS = 512
"""The most programs per tile. Each of them, or the last to finish, reads the partial results of all."""


class BlockSplit(NamedTuple):
    """Blocks of a row split among programs: ``parts`` programs share a tile of rows, each ``span`` blocks of a row."""

    parts: int
    span: int

    @property
    def padded_parts(self) -> int:
        """The number of parts, and so of partial results, rounded up to a power of two."""
        return next_power_of_two(self.parts)


def split_blocks(parts: int, blocks: int) -> BlockSplit:
    """Split a row of ``blocks`` blocks into at most ``parts`` parts. No part is empty."""
    span = cdiv(blocks, parts)
    return BlockSplit(cdiv(blocks, span), span)


def plan_split(blocks: int, tiles: int, elements: int, device: Device, most: int = MOST_PARTS) -> BlockSplit:
    """Split each row among enough programs to fill the device: at least two if a row has two blocks.

    blocks: the number of blocks per row. tiles: the number of tiles. elements: the number of elements per tile."""
    wanted = cdiv(CROWD * device.multiprocessors, max(1, tiles))
    return split_blocks(max(1, min(blocks, max(2, min(wanted, most, elements // LEAST_PART)))), blocks)


def choose_gradient_variant(tiles: int, device: Device) -> str:
    """Return a gradient's variant for rows that don't fit on chip: online if the tiles fill the device, else split."""
    return "online" if tiles >= CROWD * device.multiprocessors else "split_two_launches"
