"""Tiles of the minimum's forms."""

from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.tiles import Problem, Tile

ELEMENTS = 8
"""Of a short row that has no vectors, to a thread: twice as many as where results take its registers."""


def row_tile(given: Problem) -> Tile:
    """Several short rows, or a block of one row."""
    return tiles.short_tile(given, 1, ELEMENTS) or tiles.block(given)
