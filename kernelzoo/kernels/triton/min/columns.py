"""A program takes a strip of neighbouring columns as a whole."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.triton.min import column_tiles
from kernelzoo.kernels.triton.min.arguments import plain
from kernelzoo.kernels.triton.min.column_tiles import (
    COLUMN_PILE,
    ColumnTile,
    column_tile,
    columns_or_refuse,
    launch_of_columns,
)
from kernelzoo.kernels.triton.min.tiles import LINE_BYTES
from kernelzoo.launch import Launch
from kernelzoo.layout import Columns
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of


@numbers
class Numbers:
    short_across: int = knob(
        512, among=(256, 512, 1024), unit="elements", why="of columns that programs of 128 threads take whole"
    )
    long_across: int = knob(
        4096, among=(2048, 4096, 16384), unit="elements", why="of columns that programs of 512 threads take whole"
    )


def whole_tile(columns: Columns, device: Device) -> ColumnTile:
    """The tile of programs that take whole columns."""
    numbers, tiles = of(Numbers, device.index), of(column_tiles.Numbers, device.index)
    # As wide as leaves each multiprocessor a program.
    for line in (4 * LINE_BYTES, 2 * LINE_BYTES, LINE_BYTES):
        tile = column_tile(tiles, columns, line=line)
        if columns.strips(tile.columns) >= device.multiprocessors:
            break
    shifted = tile.columns < tile.lanes
    if columns.n <= numbers.short_across:
        # Shifted lines lose a vector each: less is lost of wider ones.
        return column_tile(tiles, columns, 128, 2 * LINE_BYTES if shifted else LINE_BYTES)
    if columns.n < numbers.long_across or shifted:
        return tile
    # Half as much to a thread where two programs must share a multiprocessor's registers.
    alone = columns.strips(tile.columns) <= device.multiprocessors
    return column_tile(tiles, columns, 512, line, pile=COLUMN_PILE if alone else COLUMN_PILE // 2)


@register("triton", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over strips of neighbouring columns, each read from top to bottom by one program."""
    id = "triton/min/columns"
    x, out = plain(x), plain(out)
    columns, device = columns_or_refuse(id, x, out), device_of(x)
    return launch_of_columns(id, x, out, columns, whole_tile(columns, device), 1)
