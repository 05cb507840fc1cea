"""Whole rows to a thread, or a few lanes, through the shared memory of their warp; ``struct ThreadRows``."""

import math

from kernelzoo.kernels.cupy.rows import WARP, one_piece
from kernelzoo.layout import VECTOR_BYTES, Rows, cdiv

THREADS = 128
"""Of a block, whose warps wait for none of the others."""

MOST_ELEMENTS = 64
"""Of a row that one thread takes: four warps of such rows keep to the 48 kB that every device has."""

NARROWEST = 4
"""Bytes of the narrowest word: what an instruction reads from a bank."""


def fits(rows: Rows) -> bool:
    """Whether the rows are one piece of memory, on 16-byte boundaries, of two or four bytes an element."""
    return one_piece(rows) and rows.aligned and rows.itemsize in (2, 4)


def word_bytes(rows: Rows, most: int) -> int | None:
    """The widest word an odd number of which holds one thread's rows, of at most so many bytes to a warp; the narrowest
    if none keeps to that, and None if their number is never odd."""
    widths = [w for w in (VECTOR_BYTES, 8, NARROWEST) if _words(rows, w) % 2 == 1]
    return next((w for w in widths if WARP * _words(rows, w) * w <= most), widths[-1] if widths else None)


def blocks_and_bytes(rows: Rows, word: int, lanes: int = 1) -> tuple[int, int]:
    """Blocks, and the shared memory of each."""
    threads_rows = _words(rows, word) * word // (rows.n * rows.itemsize)
    groups = THREADS // lanes
    return cdiv(rows.total, groups * threads_rows), groups * _words(rows, word) * word


def _words(rows: Rows, word: int) -> int:
    """Words that one row fills, or as many rows as it takes to fill whole ones."""
    return rows.n // math.gcd(rows.n, word // rows.itemsize)
