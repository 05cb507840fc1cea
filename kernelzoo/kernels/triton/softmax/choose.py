import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES
from kernelzoo.kernels.shared.jit import device_of, edge_vector_size
from kernelzoo.kernels.triton.softmax import multi_row_lanes, multi_row_loop, online, parts, persistent, tiles
from kernelzoo.kernels.triton.softmax.strips import Strips, plan_strips
from kernelzoo.layout import Columns, Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

ONLINE_ROWS = 6
"""The number of rows per SM from which online takes float64 rows that don't fit on chip."""

LONE_ROW = 2**14
"""The row length above which an SM has room for only one row."""


@launch_table("triton", "softmax")
class Knobs(tiles.Knobs, multi_row_lanes.Knobs, multi_row_loop.Knobs, persistent.Knobs, online.Knobs, parts.Knobs):
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
    """A program takes a tile of short rows, or a row that fits on chip. Several programs share a longer row.

    Many longer float64 rows go to online, because their exponentials are slower than memory. Columns that fit on chip
    are taken in tiles or strips. Longer columns go to split. If they are many and fit no strips, they go to online.
    """
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if tiles.row_tile(knobs, device, rows, edge_vector_size(rows)) is not None:
        return _choose_multi_row(knobs, device, rows)
    if rows.as_columns is not None:
        return _choose_for_columns(knobs, device, rows, rows.as_columns)
    if rows.n > ON_CHIP_BYTES // rows.accumulator_bytes:
        many = rows.itemsize == 8 and rows.planned >= ONLINE_ROWS * device.multiprocessors
        return "online" if many else "split"
    if rows.itemsize == 2 and rows.n > knobs.packed_limit and rows.planned >= knobs.ahead_rows * device.multiprocessors:
        return "persistent"
    # If an SM has room for only one row, most SMs have no work in the second wave.
    waves = rows.planned / device.multiprocessors
    return "split" if device.is_nvidia and rows.n > LONE_ROW and 1 < waves <= 2 else "fused"


@chooser("triton", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> str:
    """A program takes several consecutive rows: as one tile if they are short, else one after the other.

    If memory is contiguous across rows (a reduction over dim 0), strips or tiles also make the loads contiguous.
    """
    device = device_of(x)
    return _choose_multi_row(of(Knobs, device.index), device, rows_of(x, out))


def _choose_multi_row(knobs: Knobs, device: Device, rows: Rows) -> str:
    if (strips := _plan_strips_unless_tiles_faster(rows.as_columns, device)) and strips.elements >= rows.n:
        return "columns"
    if multi_row_lanes.is_short_and_ragged(rows):
        return "multi_row_lanes"
    return "multi_row_loop" if tiles.row_tile(knobs, device, rows, edge_vector_size(rows)) is None else "multi_row_tile"


def _choose_for_columns(knobs: Knobs, device: Device, rows: Rows, columns: Columns) -> str:
    if strips := _plan_strips_unless_tiles_faster(columns, device):
        return "columns" if strips.elements >= rows.n else "split"
    side, *_ = online.column_tile(device, rows)
    many = rows.total >= knobs.online_percent / 100 * device.multiprocessors * side
    return "online" if many else "split"


def _plan_strips_unless_tiles_faster(columns: Columns | None, device: Device) -> Strips | None:
    """Return strips of the columns, or None if there are no columns or tiles are faster."""
    return plan_strips(columns, device) if columns is not None and columns.n > tiles.FEW_ROWS else None
