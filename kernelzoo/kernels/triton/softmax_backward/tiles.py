"""Launch numbers of tiles of both inputs that programs hold on chip: what several forms ask."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.triton.softmax.fused import ON_CHIP_BYTES, tile_columns, wide_bytes
from kernelzoo.layout import Rows, power_of_two

ROW_ELEMENTS, DOUBLE_ELEMENTS = 16, 8
"""Of each input, to a thread of a program that holds one row, and of float64: half of what a softmax's threads hold of
their one."""

FULL_ROW_BYTES = 32768
"""Rows longer than that, as computed and without edges, take the most threads that a program may have."""


def capacity(rows: Rows) -> int:
    """Elements of the longest row of which one program holds both inputs."""
    return ON_CHIP_BYTES // 2 // wide_bytes(rows)


def row_columns(rows: Rows, edges: int, implementation: str) -> int:
    """Columns of a tile that holds a whole row, its edges aside. Raises UnsupportedProblemError if none can."""
    most = capacity(rows)
    if rows.n > most:
        words = f"a row of both inputs must fit on chip, {most} of {rows.dtype} each; got {rows.n}"
        raise UnsupportedProblemError(implementation, words)
    return tile_columns(rows.n, edges)


def row_warps(device: Device, rows: Rows, edges: int) -> int:
    """Warps for one row: no more than the row itself can feed, however wide its tile is."""
    threads = rows.n // (DOUBLE_ELEMENTS if rows.itemsize == 8 else ROW_ELEMENTS)
    if rows.n * wide_bytes(rows) > FULL_ROW_BYTES and not edges:
        threads = 1024
    return device.warps(power_of_two(max(32, threads) + 1) // 2)
