"""A gradient in two launches, between which something may happen to the sums: the steps of the first and of the
second."""

from kernelzoo.kernels.cupy.gradients.rows import packs, threads
from kernelzoo.kernels.cupy.launch import I32, Step
from kernelzoo.kernels.cupy.rows import WARP, c_type
from kernelzoo.layout import Rows, cdiv

SUM_THREADS, SHORT_THREADS, FINISH_THREADS = 512, 128, 256
"""Of a block at the most: of one to a row, of one of short rows, and of one to a share of a row."""


def sums(rows: Rows, wide: int, items: int) -> Step:
    """The sum of each row, of so many elements a pack and packs of a thread at a time: by a warp that can hold it, else
    by a block."""
    count = packs(rows, wide)
    short = count <= items * WARP
    kernel = f"online<{c_type(rows)}, {wide}, {items}, {int(short)}>"
    if short:
        return Step(kernel, cdiv(rows.total, SHORT_THREADS // WARP), SHORT_THREADS)
    return Step(kernel, rows.total, min(SUM_THREADS, threads(count, items)))


def finish(rows: Rows, wide: int, items: int) -> Step:
    """The results of each row, a block to a share of it."""
    count = packs(rows, wide)
    width = min(FINISH_THREADS, threads(count, items))
    shares = cdiv(count, width * items)
    kernel = f"blocks<{c_type(rows)}, {wide}, {items}>"
    return Step(kernel, rows.total * shares, width, ((I32, shares),))
