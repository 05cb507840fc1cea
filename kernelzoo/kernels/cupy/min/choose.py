import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.min import rows_deferred_block, rows_deferred_lanes, tiles
from kernelzoo.kernels.cupy.min.tiles import ITEMS, THREADS, choose_multi_block_tile, choose_one_block_tile
from kernelzoo.kernels.cupy.rows import count_packs, fits_one_thread
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

SHORT_PACKS = THREADS * ITEMS // 2  # per row, at most, for a block to read it in one batch: a split gains nothing
LONG_PACKS = 65536  # per row: with more packs, one block per row pays only at twice as many rows
SHORT_COLUMN = 512  # elements per column: a split of so few gains nothing


@launch_table("cupy", "min")
class Knobs(tiles.Knobs, rows_deferred_block.Knobs, rows_deferred_lanes.Knobs):
    fill_percent: int = knob(50, among=(25, 50, 100, 200), unit="% of the SMs", why="above which no row is split")
    columns_percent: int = knob(50, among=(25, 50, 100, 200), unit="% of the SMs", why="below which columns are split")


@chooser("cupy", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Choose rows_deferred if the rows fill the device, and split otherwise."""
    rows, device, knobs = _problem_of(x, out)
    sms = device.multiprocessors
    if rows.as_columns is not None:
        few = 100 * choose_one_block_tile(rows.as_columns, device).count < knobs.columns_percent * sms
        return _choose_split(rows, device, knobs) if few and rows.n > SHORT_COLUMN else _choose_late_merge_variant(rows)
    # One block per row fills the device at half as many rows as SMs, or at a quarter if rows are not long.
    percent = knobs.fill_percent if count_packs(rows) > LONG_PACKS else knobs.fill_percent // 2
    if 100 * rows.total > percent * sms or count_packs(rows) <= SHORT_PACKS:
        return _choose_late_merge_variant(rows)
    return _choose_split(rows, device, knobs)


@chooser("cupy", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> str:
    """A block, a warp, a part of a warp or a thread reduces each row. Threads merge their minima once, at the end."""
    rows, _, _ = _problem_of(x, out)
    return _choose_late_merge_variant(rows)


@chooser("cupy", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row, or a tile of columns. The last to finish merges their minima: one launch."""
    return _choose_split(*_problem_of(x, out))


def _problem_of(x: torch.Tensor, out: torch.Tensor) -> tuple[Rows, Device, Knobs]:
    device = device_of(x)
    return rows_of(x, out), device, tables.of(Knobs, device.index)


def _choose_late_merge_variant(rows: Rows) -> str:
    if rows.as_columns is not None:
        return "rows_deferred_lanes" if fits_one_thread(rows) else "columns"
    return "rows_deferred_lanes" if count_packs(rows) <= rows_deferred_lanes.MOST_PACKS else "rows_deferred_block"


def _choose_split(rows: Rows, device: Device, knobs: Knobs) -> str:
    if rows.as_columns is None:
        return "split_arrival"
    _, chunks = choose_multi_block_tile(rows.as_columns, device, knobs.column_blocks)
    return "columns_split" if chunks > 1 else "columns"
