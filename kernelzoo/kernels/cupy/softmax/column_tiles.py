"""Tiles of neighbouring columns, which the lanes of a block run along: see columns.cuh."""

from __future__ import annotations

from kernelzoo.kernels.cupy.rows import WARP
from kernelzoo.layout import Columns, cdiv, power_of_two


def most_threads(columns: Columns) -> int:
    """Threads of a block at most: four blocks of 256 run on an SM where a thread reads single elements."""
    return 512 if columns.vector > 1 else 256


def held_items(columns: Columns) -> int:
    """Elements of its column that a thread holds in registers."""
    return 4 if columns.dtype == "float64" else 8 if columns.vector > 1 else 16


def block_of(columns: Columns, most_threads: int) -> tuple[int, int]:
    """Lanes along the rows, and threads: 128 bytes of neighbouring rows, down to 32 (a sector) for longer columns."""
    width, items = columns.vector, held_items(columns)
    most, least = (8, 2) if width > 1 else (32, 8)
    lanes = min(most, power_of_two(cdiv(columns.inner, width)))
    while lanes > least and most_threads // lanes * items < columns.n:
        lanes //= 2
    threads = lanes * power_of_two(cdiv(columns.n, items))
    return lanes, min(most_threads, max(threads, WARP, lanes * width))


def capacity(columns: Columns) -> int:
    """Elements of a column that the largest block holds in registers."""
    threads = most_threads(columns)
    lanes, _ = block_of(columns, threads)
    return threads // lanes * held_items(columns)


def tiles_of(columns: Columns, most_threads: int) -> int:
    """Tiles of all columns, for blocks of so many threads at most."""
    lanes, _ = block_of(columns, most_threads)
    return columns.strips(lanes * columns.vector)
