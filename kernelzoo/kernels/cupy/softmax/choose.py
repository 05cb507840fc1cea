"""Which form takes a problem: by row length first, then by the number of rows, and for columns by their width."""

import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.rows import WARP, packed, packs, thread_has_row, width
from kernelzoo.kernels.cupy.softmax import (
    columns_cluster,
    columns_flat,
    columns_ragged,
    fused,
    multi_row_lanes,
    multi_row_shared,
    multi_row_thread,
    split_cluster,
    split_ring,
)
from kernelzoo.kernels.cupy.softmax.column_strips import holds, whole
from kernelzoo.kernels.cupy.softmax.held import PACKS_HELD
from kernelzoo.layout import Columns, Rows, cdiv, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

FLAT_ROWS, FLAT_BYTES, FLAT_LONG, FLAT_THREADS = 256, 2**22, 32768, 384
"""Columns taken as one piece of memory: at odd widths, of so many bytes in all at least, and of so many rows at most
where a cluster holds them; at even ones, of more elements than blocks that share a strip hold, where so many threads of
a block have work."""

LANES_PACKS, LANES_BYTES = 48, 2**22
"""Packs of a float32 row that no power of two is, up to which lanes share words, and bytes of all rows from which."""

LANES_ROWS, LANES_LEAST = 192, 8
"""Rows per SM up to which lanes do better than threads, of so many elements at least."""

TILE_ROWS, TILE_LEAST = 64, 64
"""Rows of half precision per SM up to which a tile does better than lanes, of more elements than that."""

RAGGED_LEAST = 96
"""Elements of the shortest column of an odd width that a cluster takes through shared memory."""


@launch_table("cupy", "softmax")
class Knobs(
    fused.Numbers,
    multi_row_thread.Numbers,
    multi_row_lanes.Numbers,
    split_cluster.Numbers,
    split_ring.Numbers,
    columns_cluster.Numbers,
    columns_ragged.Numbers,
):
    """What depends on the card. Shipped values are an H200's."""

    warp_packs: int = knob(
        7 * WARP, among=(128, 192, 224, 256), unit="packs", why="of the longest row that one warp takes"
    )
    thread_elements: int = knob(
        48, among=(24, 48, 64), unit="elements", why="of the longest row off 16-byte words that one thread takes"
    )
    # The 256 threads of which an SM runs several: a cluster of such blocks is faster than a larger one.
    fused_packs: int = knob(
        256 * PACKS_HELD, among=(1024, 2048, 4096, 8192), unit="packs", why="of the longest row that has one block"
    )
    alone_packs: int = knob(
        2048,
        among=(512, 1024, 2048),
        unit="packs",
        why="of the longest row that has one block where rows are too few for all SMs",
    )
    fused_percent: int = knob(
        100, among=(50, 100, 200), unit="% of the SMs", why="with a row each, from which rows aren't too few"
    )
    columns_blocks: int = knob(
        2, among=(1, 2, 4), unit="blocks", why="of long columns to each SM, below which several share a column"
    )
    columns_long: int = knob(
        1024, among=(512, 1024, 2048), unit="elements", why="of a column, above which that pays off"
    )
    columns_short: int = knob(
        64, among=(64, 128, 256, 512), unit="elements", why="of the longest column that no cluster takes"
    )


@chooser("cupy", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest of the others for the problem: by row length first, then by the number of rows."""
    rows, device, knobs = _given(x, out)
    if thread_has_row(rows):
        return "multi_row_tile"
    if rows.columns is not None:
        return _auto_columns(rows.columns, device, knobs)
    count = packs(rows)
    if _in_pieces(rows) or count <= knobs.warp_packs:
        return _multi_row(rows, device, knobs)
    if width(rows) == 1:
        return "fused" if count <= fused.MOST_PACKS else "online"
    # A block of its own per row, up to the threads of which an SM runs several, unless so few rows leave SMs idle.
    many = 100 * rows.total >= knobs.fused_percent * device.multiprocessors
    clustered = device.cluster_blocks > 1 and rows.itemsize < 8  # of double, two such blocks fill an SM as one does
    longest = knobs.fused_packs if clustered else max(knobs.fused_packs, 512 * PACKS_HELD)
    if count <= longest and (many or count <= knobs.alone_packs):
        return "fused"
    return _split_rows(rows, device, knobs)


@chooser("cupy", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> str:
    """Many short rows per block: in registers, as one piece through shared memory, or columns in registers."""
    rows, device, knobs = _given(x, out)
    if thread_has_row(rows):
        return "multi_row_tile"
    if rows.columns is None:
        return _multi_row(rows, device, knobs)
    if not holds(rows.columns):
        held = whole(rows.columns).elements
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row", f"a column of {rows.n} elements doesn't fit in a block's registers: {held} do"
        )
    return "columns"


@chooser("cupy", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row and merge their (max, sum) pairs: a cluster, or the whole grid for longer rows."""
    rows, device, knobs = _given(x, out)
    return _split_rows(rows, device, knobs) if rows.columns is None else _split_columns(rows.columns, device, knobs)


def _given(x: torch.Tensor, out: torch.Tensor) -> tuple[Rows, Device, Knobs]:
    device = device_of(x)
    return rows_of(x, out), device, tables.of(Knobs, device.index)


def _in_pieces(rows: Rows) -> bool:
    """Short rows that don't keep to 16-byte words, all of them one piece of memory."""
    return not packed(rows) and multi_row_shared.fits(rows)


def _multi_row(rows: Rows, device: Device, knobs: Knobs) -> str:
    if not _in_pieces(rows):
        return "multi_row_lanes" if _leaves_idle(rows) else "multi_row_tile"
    few = rows.total <= LANES_ROWS * device.multiprocessors and rows.n >= LANES_LEAST
    if multi_row_thread.fits(rows) and rows.n <= knobs.thread_elements and not few:
        return "multi_row_thread"
    if rows.itemsize == 2 and rows.n > TILE_LEAST and rows.total <= TILE_ROWS * device.multiprocessors:
        return "multi_row_tile"
    return "multi_row_lanes" if multi_row_lanes.fits(rows) else "multi_row_shared"


def _leaves_idle(rows: Rows) -> bool:
    """Whether a tile of many rows of whole words would leave lanes, a power of two to a row, without work."""
    count = packs(rows)
    uneven = count & (count - 1) != 0 and (rows.itemsize == 2 or count < LANES_PACKS)
    return uneven and rows.total * rows.n * rows.itemsize >= LANES_BYTES and multi_row_lanes.fits(rows)


def _split_rows(rows: Rows, device: Device, knobs: Knobs) -> str:
    if width(rows) == 1 or not split_ring.runs_on(device, rows.dtype):
        return "split_grid"
    _, _, threads = split_cluster.block_of(rows, device, knobs)
    # A cluster of blocks so large that an SM has but one or two hardly finds room; half precisions do for arithmetic.
    few = 2 * rows.total <= device.multiprocessors and rows.itemsize >= 4
    if threads > split_cluster.MOST_THREADS or (few and threads > knobs.cluster_threads):
        return "split_ring"
    return "split_cluster"


def _auto_columns(columns: Columns, device: Device, knobs: Knobs) -> str:
    shared = _shared_columns(columns, device, knobs)
    if shared is not None and (shared != "columns_cluster" or columns.n > knobs.columns_short):
        return shared
    if columns.vector > 1 and columns.itemsize < 8:
        return "columns" if holds(columns) else "columns_grid"
    # Held in registers if it fits; shared where the strips alone don't give each SM two blocks.
    strips = columns.strips(whole(columns).lanes * columns.vector)
    few = strips < knobs.columns_blocks * device.multiprocessors
    return "columns_grid" if few and columns.n > knobs.columns_long else "columns"


def _split_columns(columns: Columns, device: Device, knobs: Knobs) -> str:
    return _shared_columns(columns, device, knobs) or "columns_grid"


def _shared_columns(columns: Columns, device: Device, knobs: Knobs) -> str | None:
    """The form that takes columns through the shared memory of its blocks; None if registers do as well."""
    ragged = _suits_ragged(columns, device, knobs)
    if _is_flat(columns, device, ragged):
        return "columns_flat"
    if columns.itemsize == 8:  # its exponentials leave too few registers for elements
        return "columns_cluster" if columns_cluster.fitting(columns, device, knobs) is not None else None
    return "columns_ragged" if ragged else None


def _is_flat(columns: Columns, device: Device, ragged: bool) -> bool:
    """At odd widths all of few rows, and what no cluster holds; at others only columns that are too long for the strips
    of a cluster."""
    if not columns_flat.fits(columns, device):
        return False
    if columns.vector == 1:
        much = columns.n * columns.inner * columns.itemsize >= FLAT_BYTES
        return much and (columns.inner <= FLAT_ROWS or not ragged)
    return columns.n > FLAT_LONG and columns_flat.threads_round(columns) >= FLAT_THREADS


def _suits_ragged(columns: Columns, device: Device, knobs: Knobs) -> bool:
    """Not where columns are short, or so few that too many lanes would be idle."""
    if columns.vector > 1 or columns.n < RAGGED_LEAST or 4 * columns.inner < 3 * cdiv(columns.inner, WARP) * WARP:
        return False
    return columns_ragged.fitting(columns, device, knobs) is not None
