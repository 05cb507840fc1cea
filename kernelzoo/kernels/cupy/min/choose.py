"""Which form of the minimum takes a problem: what the names auto, rows_deferred and split stand for."""

import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.min import (
    blocks,
    columns_flat,
    rows_deferred_block,
    rows_deferred_lanes,
    rows_deferred_thread,
    split_cluster,
)
from kernelzoo.kernels.cupy.min.blocks import ITEMS, THREADS
from kernelzoo.kernels.cupy.min.tiles import shared_tile, whole_tile
from kernelzoo.kernels.cupy.rows import one_piece, packed, packs, thread_has_row, width
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

SHORT_PACKS = THREADS * ITEMS // 2
"""Of a row that a block reads in one batch: it gains nothing by being split."""

SHORT_COLUMN = 512
"""Lines of columns that are not worth splitting."""

LANES_ROWS = 384
"""Rows per SM up to which lanes do better than shared memory."""

FLAT_LINES = 1024
"""Lines from which columns are long enough to be read as one piece of memory."""


@launch_table("cupy", "min")
class Knobs(blocks.Numbers, rows_deferred_block.Numbers, rows_deferred_lanes.Numbers, rows_deferred_thread.Numbers):
    """What depends on the card. Shipped values are an H200's."""

    fill_percent: int = knob(
        50, among=(25, 50, 100, 200), unit="% of the SMs", why="with a row each, above which no row is split"
    )
    columns_percent: int = knob(
        50, among=(25, 50, 100, 200), unit="% of the SMs", why="with a tile of columns each, below which they are split"
    )
    # Their minima meet without a trip to memory, which is worth more than the SMs that so few rows leave out.
    cluster_rows: int = knob(
        12, among=(12, 24, 48, 96), unit="rows", why="from which four blocks each, as a cluster, pay off"
    )
    thread_elements: int = knob(
        48, among=(24, 48, 64), unit="elements", why="of the longest row off 16-byte words that one thread takes"
    )
    # Shared memory of 128 such rows leaves an SM with 200 kB six blocks at least.
    tile_row_bytes: int = knob(
        256, among=(64, 128, 256), unit="bytes", why="of rows off 16-byte words that are read as one piece of memory"
    )


@chooser("cupy", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest of the others: rows_deferred where the rows fill the device, split where they don't."""
    rows, device, knobs = _asked(x, out)
    if rows.columns is not None:
        columns, sms = rows.columns, device.multiprocessors
        few = 100 * whole_tile(columns, device).count < knobs.columns_percent * sms and columns.n > SHORT_COLUMN
        return _split(rows, device, knobs) if few or _narrow(columns) else _rows_deferred(rows, device, knobs)
    # A block per row fills the device from half as many rows as SMs.
    if 100 * rows.total > knobs.fill_percent * device.multiprocessors or packs(rows) <= SHORT_PACKS:
        return _rows_deferred(rows, device, knobs)
    return _split(rows, device, knobs)


@chooser("cupy", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> str:
    """A block, a warp, a part of a warp or a thread per row; its running minimum meets the others' once, at the end."""
    rows, device, knobs = _asked(x, out)
    return _rows_deferred(rows, device, knobs)


@chooser("cupy", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks per row, whose partial minima meet in memory, or within a cluster: one launch."""
    return _split(*_asked(x, out))


def _asked(x: torch.Tensor, out: torch.Tensor) -> tuple[Rows, Device, Knobs]:
    device = device_of(x)
    return rows_of(x, out), device, tables.of(Knobs, device.index)


def _rows_deferred(rows: Rows, device: Device, knobs: Knobs) -> str:
    if rows.columns is not None:
        return "rows_deferred_lanes" if thread_has_row(rows) else "columns"
    # Short rows that don't keep to 16-byte words: all of them as one piece of memory.
    if one_piece(rows) and not packed(rows) and rows.n * rows.itemsize <= knobs.tile_row_bytes:
        if rows_deferred_thread.fits(rows) and rows.n <= knobs.thread_elements:
            return "rows_deferred_thread"
        return "rows_deferred_lanes" if rows.total <= LANES_ROWS * device.multiprocessors else "rows_deferred_shared"
    return "rows_deferred_lanes" if packs(rows) <= rows_deferred_lanes.MOST_PACKS else "rows_deferred_block"


def _split(rows: Rows, device: Device, knobs: Knobs) -> str:
    columns = rows.columns
    if columns is not None:
        if _narrow(columns):
            return "columns_flat"
        _, chunks = shared_tile(columns, device, knobs.column_blocks)
        return "columns_split" if chunks > 1 else "columns"
    # Of longer rows the trip to memory weighs little, and clusters leave some SMs out.
    batch = split_cluster.CLUSTER * split_cluster.THREADS
    fitting = width(rows) > 1 and batch <= packs(rows) <= 4 * ITEMS * batch
    clusters = device.cluster_blocks >= split_cluster.CLUSTER and rows.total >= knobs.cluster_rows
    return "split_cluster" if fitting and clusters else "split_arrival"


def _narrow(columns: Columns) -> bool:
    """Long columns that fill one piece of memory, of so few rows that a word holds a whole line of them, or more."""
    few = columns.inner < VECTOR_BYTES // columns.itemsize
    return few and columns.n >= FLAT_LINES and columns_flat.fits(columns)
