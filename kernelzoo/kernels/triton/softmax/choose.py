"""Which form of softmax takes a problem, by a launch table."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import device_of, edges_of, packed
from kernelzoo.kernels.triton.softmax import (
    columns_flat,
    fused_packed,
    multi_row_lanes,
    multi_row_loop,
    multi_row_thread,
    online,
    parts,
    persistent,
    strips,
    tiles,
)
from kernelzoo.layout import Columns, Rows, power_of_two, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

ONLINE_ROWS = 6
"""Rows of float64 per multiprocessor from which online takes those that no program holds."""

FEW_ROWS = 64
"""Elements of columns up to which tiles of rows are as good as strips."""

FLAT_PERCENT, FLAT_BYTES, FLAT_LEAST = 75, 2**22, 2**15
"""Columns are read as one piece of memory where so much of a block is theirs, and there are so many bytes, or as many
as the last where each program merges all pairs: they are so few."""

LONE_ROW = 2**14
"""Elements above which an SM holds one row."""

NARROW, NARROW_PERCENT, NARROW_BYTES = 1024, 55, 20 * 2**20
"""Columns up to which less of a block does, and bytes in all from which."""

FEW_COLUMNS = 128
"""Columns up to which that is better than tiles where rows keep to vectors."""


@launch_table("triton", "softmax")
class Knobs(
    tiles.Numbers,
    fused_packed.Numbers,
    multi_row_lanes.Numbers,
    multi_row_loop.Numbers,
    multi_row_thread.Numbers,
    persistent.Numbers,
    online.Numbers,
    parts.Numbers,
):
    """What depends on the card. Shipped values are an H200's."""

    packed_row: int = knob(
        8192,
        among=(2048, 4096, 8192),
        unit="elements",
        why="a longer row of half precision is held as it is read, two numbers to a register, if rows are many",
    )
    packed_rows: int = knob(2, among=(1, 2, 4, 8), unit="rows per multiprocessor", why="above which they are many")
    ahead_rows: int = knob(
        2, among=(1, 2, 4, 8), unit="rows per multiprocessor", why="from which on persistent takes longer ones"
    )
    online_percent: int = knob(
        90,
        among=(45, 90, 180),
        unit="% of the SMs",
        why="with a tile of long columns each, from which on online takes them, and not split",
    )


@chooser("triton", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, and several programs to each row that is longer.

    Longer rows of float64 are for online if they are many, since its exponentials take longer than memory does. Across
    rows, tiles of short columns, and for longer ones online if many, split if few.
    """
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if tiles.row_tile(knobs, device, rows, edges_of(rows)) is not None:
        return _multi_row(knobs, device, rows)
    if rows.columns is not None:
        return _long_columns(knobs, device, rows, rows.columns)
    if rows.n > tiles.ON_CHIP_BYTES // tiles.wide_bytes(rows):
        many = rows.itemsize == 8 and rows.total >= ONLINE_ROWS * device.multiprocessors
        return "online" if many else _split(device, rows)
    if rows.itemsize == 2 and rows.n > knobs.packed_limit and rows.total >= knobs.ahead_rows * device.multiprocessors:
        return "persistent"
    # Rows of which an SM holds one leave most of them without work in the second wave.
    if device.is_nvidia and rows.n > LONE_ROW and 1 < rows.total / device.multiprocessors <= 2:
        return "split_grid"
    many = rows.total > knobs.packed_rows * device.multiprocessors
    return "fused_packed" if many and knobs.packed_row < rows.n <= knobs.packed_limit and packed(rows) else "fused"


@chooser("triton", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several consecutive rows to a program: a tile of them where rows are short, a guarded loop where they are not.

    Where memory is contiguous across rows (a reduction over dim 0), strips or tiles also make the loads contiguous.
    """
    device = device_of(x)
    return _multi_row(of(Knobs, device.index), device, rows_of(x, out))


@chooser("triton", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row, which they hold on chip while they exchange (max, sum) pairs: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other. Where that can't be had (on
    AMD devices and in the interpreter), or rows lie across and are too long, one launch leaves the pairs and a second
    merges them and writes.
    """
    return _split(device_of(x), rows_of(x, out))


def _multi_row(knobs: Knobs, device: Device, rows: Rows) -> str:
    strip = _strips(rows.columns, device)
    if strip is not None and strip.elements >= rows.n:
        return "columns"
    if multi_row_thread.pays(knobs, device, rows):
        return "multi_row_thread"
    if multi_row_lanes.pays(rows):
        return "multi_row_lanes"
    edges = edges_of(rows)
    if tiles.row_tile(knobs, device, rows, edges) is None:
        return "multi_row_loop"
    return "multi_row_ragged" if tiles.edge_vectors(rows, edges) else "multi_row_tile"


def _long_columns(knobs: Knobs, device: Device, rows: Rows, columns: Columns) -> str:
    strip = _strips(columns, device)
    if strip is not None and strip.elements >= rows.n:
        return "columns"
    if strip is not None or _flat_pays(columns):
        return _split(device, rows)
    side, _ = online.column_tile(knobs, rows)
    many = rows.total >= knobs.online_percent / 100 * device.multiprocessors * side
    return "online" if many else _split(device, rows)


def _split(device: Device, rows: Rows) -> str:
    columns, waits = rows.columns, device.is_nvidia
    if columns is None:
        return "split_grid" if waits else "split_two_launches"
    strip = _strips(columns, device)
    if (strip is None or columns.multiple * columns.itemsize < 16) and _flat_pays(columns):
        return "columns_flat"
    if strip is not None and strip.elements < rows.n:
        return "columns_grid" if waits else "columns_two_launches"
    return "columns_two_passes"


def _strips(columns: Columns | None, device: Device) -> strips.Strips | None:
    """Strips, where they are better than tiles."""
    return strips.strips_of(columns, device) if columns is not None and columns.n > FEW_ROWS else None


def _flat_pays(columns: Columns) -> bool:
    """Whether blocks of few columns as one piece of memory are the best: blocks nearly full, and enough of them."""
    period = columns_flat.period_of(columns)
    least = FLAT_LEAST if columns.inner <= columns_flat.MERGED_COLUMNS else FLAT_BYTES
    much = columns.n * columns.inner * columns.itemsize >= least
    odd = columns.multiple * columns.itemsize < 16 or columns.inner <= FEW_COLUMNS
    narrow = columns.inner <= NARROW and columns.n * columns.inner * columns.itemsize >= NARROW_BYTES
    percent = NARROW_PERCENT if narrow else FLAT_PERCENT
    return period > 0 and much and odd and 100 * period >= percent * power_of_two(period)
