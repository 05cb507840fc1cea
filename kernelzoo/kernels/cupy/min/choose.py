import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.min import rows_deferred_block, rows_deferred_lanes, tiles
from kernelzoo.kernels.cupy.min.tiles import ITEMS, THREADS, shared_tile, whole_tile
from kernelzoo.kernels.cupy.rows import packs, thread_has_row
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

SHORT_PACKS = THREADS * ITEMS // 2  # of a row that a block reads in one batch: it gains nothing by being split
LONG_PACKS = 65536  # of a row that a block of its own is too few for where only half of the usual rows are there
SHORT_COLUMN = 512  # lines of columns that are not worth splitting


@launch_table("cupy", "min")
class Knobs(tiles.Numbers, rows_deferred_block.Numbers, rows_deferred_lanes.Numbers):
    fill_percent: int = knob(50, among=(25, 50, 100, 200), unit="% of the SMs", why="above which no row is split")
    columns_percent: int = knob(50, among=(25, 50, 100, 200), unit="% of the SMs", why="below which columns are split")


@chooser("cupy", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest of the others: rows_deferred where the rows fill the device, split where they don't."""
    rows, device, knobs = _asked(x, out)
    sms = device.multiprocessors
    if rows.columns is not None:
        few = 100 * whole_tile(rows.columns, device).count < knobs.columns_percent * sms
        return _split(rows, device, knobs) if few and rows.n > SHORT_COLUMN else _rows_deferred(rows)
    # A block per row fills the device from half as many rows as SMs, or, of rows that are not long, a quarter.
    percent = knobs.fill_percent if packs(rows) > LONG_PACKS else knobs.fill_percent // 2
    if 100 * rows.total > percent * sms or packs(rows) <= SHORT_PACKS:
        return _rows_deferred(rows)
    return _split(rows, device, knobs)


@chooser("cupy", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> str:
    """A block, a warp, a part of a warp or a thread per row; its running minimum meets the others' once, at the end."""
    rows, _, _ = _asked(x, out)
    return _rows_deferred(rows)


@chooser("cupy", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks per row, or tile of columns, whose partial minima meet in memory: one launch."""
    return _split(*_asked(x, out))


def _asked(x: torch.Tensor, out: torch.Tensor) -> tuple[Rows, Device, Knobs]:
    device = device_of(x)
    return rows_of(x, out), device, tables.of(Knobs, device.index)


def _rows_deferred(rows: Rows) -> str:
    if rows.columns is not None:
        return "rows_deferred_lanes" if thread_has_row(rows) else "columns"
    return "rows_deferred_lanes" if packs(rows) <= rows_deferred_lanes.MOST_PACKS else "rows_deferred_block"


def _split(rows: Rows, device: Device, knobs: Knobs) -> str:
    if rows.columns is None:
        return "split_arrival"
    _, chunks = shared_tile(rows.columns, device, knobs.column_blocks)
    return "columns_split" if chunks > 1 else "columns"
