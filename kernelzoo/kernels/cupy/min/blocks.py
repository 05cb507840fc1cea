"""How many threads and blocks take a row: what several forms of the minimum count alike."""

from kernelzoo.kernels.cupy.rows import WARP
from kernelzoo.layout import cdiv
from kernelzoo.tables import knob, numbers

ITEMS = 8
"""Loads of 16 bytes in flight per thread: 128 kB with 1024 threads an SM, three times what memory's latency takes."""

THREADS = 256  # in a block, where an SM has several blocks


@numbers
class Numbers:
    """Blocks of all rows, or columns, together where several blocks share one."""

    # Two of 256 threads have enough loads on their way; four, which an SM has the registers for, are more to wait for.
    blocks_per_sm: int = knob(2, among=(2, 3, 4, 6, 8), unit="blocks", why="of split rows and of atomics, on each SM")
    column_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="on each SM, of columns that several share")


def threads(packs: int, most: int) -> int:
    """Threads, in whole warps, that take a row in batches of ITEMS packs each."""
    return min(most, cdiv(packs, ITEMS * WARP) * WARP)
