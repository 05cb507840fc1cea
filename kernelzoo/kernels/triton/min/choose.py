"""Which form of the minimum takes a problem: its layout, its size against the device's, and the launch table say."""

import torch

from kernelzoo.kernels.shared.jit import device_of, edges_of
from kernelzoo.kernels.triton.min import (
    atomics,
    column_tiles,
    columns,
    columns_flat,
    rows,
    rows_deferred_flat,
    rows_deferred_lanes,
    rows_deferred_ragged,
    rows_deferred_thread,
    split_arrival,
)
from kernelzoo.kernels.triton.min.tiles import LINE_BYTES, once_tile
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

RAGGED_COLUMNS = 128
"""Elements in the whole vectors of a row, rounded up to a power of two, to which the ragged form is faster."""

SMALL_TILES = {2: 4608, 4: 2048}
"""Elements of a row that begins anywhere in vectors, by the bytes of one, above which small tiles are faster."""


@launch_table("triton", "min")
class Knobs(
    rows.Numbers,
    rows_deferred_thread.Numbers,
    rows_deferred_lanes.Numbers,
    columns.Numbers,
    column_tiles.Numbers,
    atomics.Numbers,
    split_arrival.Numbers,
):
    """What depends on the card. Shipped values are an H200's."""

    across_percent: int = knob(
        50,
        among=(25, 50, 100),
        unit="% of the SMs",
        why="with a tile of columns each, below which several programs take each tile",
    )
    flat_row: int = knob(
        64,
        among=(0, 32, 64),
        unit="elements",
        why="of rows without gaps, no multiple of 16 bytes, that are read as one piece of memory",
    )


@chooser("triton", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """By rows where there are enough of them for all of the device, otherwise by parts of rows."""
    layout, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    across = layout.columns
    if across is not None:
        strips = across.strips(column_tiles.column_tile(knobs, across).columns)
        idle = strips < knobs.across_percent / 100 * device.multiprocessors
        return split(x, out) if idle and layout.n > knobs.short_across else rows_deferred(x, out)
    bytes = layout.n * layout.itemsize
    if bytes > knobs.row_bytes and layout.total < knobs.crowd * device.multiprocessors:
        # Half as many rows as SMs fill the device if each is read at once.
        once = 2 * layout.total >= device.multiprocessors and once_tile(
            knobs, layout, x.dtype, device, edges_of(layout)
        )
        return "rows_deferred_block" if once else "split_arrival"
    deferred = rows_deferred(x, out)
    # Integers as the minimum takes them spill registers in rows.
    if bytes > knobs.row_bytes or deferred != "rows_deferred_block" or not x.dtype.is_floating_point:
        return deferred
    # Of rows longer than a block, with edges, a smaller tile wastes less.
    longer = edges_of(layout) and layout.n > SMALL_TILES.get(layout.itemsize, layout.n)
    return deferred if longer else "rows"


@chooser("triton", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> str:
    """Parallel over rows or columns; lanes and threads meet once, at the end of a row."""
    layout = rows_of(x, out)
    device = device_of(x)
    knobs = of(Knobs, device.index)
    if layout.across:
        short = rows_deferred_lanes.pays(layout) and x.dtype.is_floating_point
        return "rows_deferred_lanes" if short else "columns"
    if rows_deferred_thread.pays(knobs, device, layout, knobs.crowd) and x.dtype.is_floating_point:
        return "rows_deferred_thread"
    if rows_deferred_lanes.pays(layout) and x.dtype.is_floating_point:
        return "rows_deferred_lanes"
    if edges_of(layout) and x.dtype.is_floating_point:
        ragged = rows_deferred_ragged.tile_of(layout)
        if ragged is not None and ragged.columns <= RAGGED_COLUMNS:
            return "rows_deferred_ragged"
        if layout.n <= knobs.flat_row and layout.total > 1 and rows_deferred_flat.tile_of(layout) is not None:
            return "rows_deferred_flat"
    return "rows_deferred_block"


@chooser("triton", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row, or to a strip of columns; the last to arrive joins their minima: one launch."""
    across = rows_of(x, out).columns
    if across is None:
        return "split_arrival"
    tile = columns_flat.tile_of(across, device_of(x))
    if tile is None or tile.parts < 2 or 10 * tile.period < 9 * tile.block:
        return "columns_split"
    # Wide rows of whole vectors are read as fast by strips, of which nothing has to be folded.
    vectors = across.multiple == 16 // across.itemsize
    return "columns_split" if vectors and across.inner * across.itemsize >= 4 * LINE_BYTES else "columns_flat"
