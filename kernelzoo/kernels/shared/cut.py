"""How rows are cut where several programs take each, in kernels that go through rows in blocks."""

from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.layout import cdiv, power_of_two

CROWD = 4
"""Programs per SM that fill the device."""

LEAST_PART = 4096
"""Elements of a tile's rows together that are worth a program of their own."""

MOST_PARTS = 512
"""Programs to a tile, at the most: each, or the last, reads what all of them have left."""


class Cut(NamedTuple):
    """Programs to a tile, and blocks of each row that one takes."""

    parts: int
    span: int

    @property
    def merged(self) -> int:
        """The power of two that holds what all of them have left."""
        return power_of_two(self.parts)


def into(parts: int, blocks: int) -> Cut:
    """So many blocks in so many parts at the most, none of which is empty."""
    span = cdiv(blocks, parts)
    return Cut(cdiv(blocks, span), span)


def cut(blocks: int, tiles: int, elements: int, device: Device, most: int = MOST_PARTS) -> Cut:
    """Parts for as many programs as fill the device, at least two where a row has two blocks.

    blocks: of a row; tiles: that cover all rows; elements: of a tile's rows together.
    """
    wanted = cdiv(CROWD * device.multiprocessors, max(1, tiles))
    return into(max(1, min(blocks, max(2, min(wanted, most, elements // LEAST_PART)))), blocks)


def streamed(tiles: int, device: Device) -> str:
    """The form of a gradient for rows that no program holds: online if tiles are many, else split_two_launches."""
    return "online" if tiles >= CROWD * device.multiprocessors else "split_two_launches"
