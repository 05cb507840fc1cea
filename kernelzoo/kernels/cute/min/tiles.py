"""Tiles of the minimum's forms."""

import torch

from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.tiles import Problem, Tile


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor as it can be loaded and compared: bool as the byte it is."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


ELEMENTS = 8
"""Of a short row that has no vectors, to a thread: twice as many as where results take its registers."""


def row_tile(given: Problem) -> Tile:
    """Several short rows, or a block of one row."""
    return tiles.short_tile(given, 1, ELEMENTS) or tiles.block(given)
