"""Which form takes a problem: by the row's length, the number of rows, and how they lie in memory."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.numba.columns import side_by_side
from kernelzoo.kernels.numba.launch import View, has_clusters, settled
from kernelzoo.kernels.numba.softmax import (
    columns,
    columns_cluster,
    columns_flat,
    columns_grid,
    columns_ragged,
    fused,
    multi_row_lanes,
    multi_row_shared,
    multi_row_thread,
    multi_row_tile,
    split_cluster,
    split_two_launches,
    tiling,
)
from kernelzoo.kernels.numba.softmax.holding import HELD
from kernelzoo.kernels.numba.words import WARP
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

SINGLE_LONG = 128
"""Elements of a column at an odd width, up to which a block has them in registers as rows across."""
SHORT_ACROSS = 96
"""Elements of a column up to which a block has them in registers as rows across, at any width."""
FEW_ACROSS, FEW_ACROSS_ROWS = 16, 384
"""Elements of a row that lies across memory, up to which a thread has it; of half precision, rows per SM from which."""

TILE_ROWS = 64
"""Short rows per SM up to which lanes read each by itself."""

COLUMN_LONG = 512
"""Elements of a column of whole vectors, up to which a block has it in registers, 64 bytes across."""

FLAT_LONG, FLAT_BYTES = 1024, 2**22
"""Elements of columns in one piece of memory, at an odd width, from which the whole grid reads it; and bytes in all,
where clusters would take them as well."""


@launch_table("numba", "softmax")
class Knobs(
    tiling.Numbers,
    multi_row_thread.Numbers,
    multi_row_lanes.Numbers,
    split_cluster.Numbers,
    split_two_launches.Numbers,
):
    """What depends on the card. Shipped values are an H200's."""

    thread_elements: int = knob(
        40, among=(16, 24, 32, 40, 80), unit="elements", why="of the longest row of which a thread has whole ones"
    )
    lanes_elements: int = knob(
        256, among=(64, 128, 192, 256), unit="elements", why="of the longest row that lanes take from shared memory"
    )
    # From 192 vectors on, a block of two warps does better than a warp, but for its edges.
    warp_vectors: int = knob(
        192, among=(64, 128, 192, 256), unit="vectors", why="of the longest row without edges that one warp takes"
    )
    held_vectors: int = knob(
        2048,
        among=(2048, 4096, 8192),
        unit="vectors",
        why="of the longest row that has one block, of packed halves or in two waves of blocks",
    )
    few_vectors: int = knob(
        4096, among=(1024, 2048, 4096), unit="vectors", why="of the longest row that has one block, if rows are few"
    )
    few_rows: int = knob(1, among=(1, 2, 4), unit="rows per SM", why="below which rows are few")
    grid_vectors: int = knob(
        4096,
        among=(2048, 4096, 8192),
        unit="vectors",
        why="of a row, above which the whole grid takes it, if rows are few",
    )


@chooser("numba", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return settled(fastest, Knobs, x, out)


@chooser("numba", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several rows to a block, each by a warp or a part of one: in registers, or through shared memory; short rows."""
    return settled(by_warps, Knobs, x, out)


@chooser("numba", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row, which stays on chip: a cluster, the grid for longer rows; or else two launches."""
    return settled(by_several_blocks, Knobs, x, out)


def fastest(v: View, device: Device, knobs: Knobs) -> str:
    """The form for any problem."""
    if v.across:
        found = by_columns(v, device) if v.n > SHORT_ACROSS else None
        many = v.itemsize > 2 or v.total >= FEW_ACROSS_ROWS * device.multiprocessors
        most = FEW_ACROSS if v.neighbours >= WARP else 2 * FEW_ACROSS  # of so few side by side a block's lanes idle
        if many and v.n <= most and multi_row_tile.multi_row_tiling(v) is not None:
            found = "multi_row_tile"
        if found is None and fused.fused_tiling(v, knobs) is not None:
            found = "fused"
        return found or by_several_blocks(v, device, knobs)
    # Of float64 a block does better than a warp as soon as that has more than four vectors to a lane.
    longest = min(4 * WARP, knobs.warp_vectors) if v.dtype == "float64" else knobs.warp_vectors
    short = (v.edges and v.dtype != "float64") or v.n <= longest * v.vec
    if through_shared(v, device, knobs) is not None or (short and multi_row_tile.multi_row_tiling(v) is not None):
        return by_warps(v, device, knobs)
    # A block of its own per row, unless it is longer than a block of 512 threads holds and so few rows leave SMs idle.
    few = v.total < knobs.few_rows * device.multiprocessors
    most = knobs.few_vectors if few else 512 * HELD if v.edges else 1024 * HELD
    # In a second wave of blocks that take an SM each, most have no work.
    second = v.itemsize == 4 and v.total < 2 * device.multiprocessors
    if (v.itemsize == 2 or second) and not few and has_clusters(device):
        most = knobs.held_vectors
    if fused.fused_tiling(v, knobs) is not None and (v.n // v.vec <= most or not v.whole):
        return "fused"
    return by_several_blocks(v, device, knobs)


def by_warps(v: View, device: Device, knobs: Knobs) -> str:
    """The form for short rows."""
    return through_shared(v, device, knobs) or "multi_row_tile"


def through_shared(v: View, device: Device, knobs: Knobs) -> str | None:
    """The form for short rows off the boundaries of vectors that are one piece of memory; None for others. Those that
    take more rows to a block are for as many as give each SM one; a tile does better where rows are fewer still."""
    if v.itemsize < 8 and v.total <= TILE_ROWS * device.multiprocessors and multi_row_tile.multi_row_tiling(v):
        return None
    if v.n <= knobs.thread_elements:
        own, form = multi_row_thread.shape(v, knobs), "multi_row_thread"
    else:
        own, form = multi_row_lanes.shape(v, knobs) if v.n <= knobs.lanes_elements else None, "multi_row_lanes"
    if own is not None and own.fills(v.total, device):
        return form
    return None if multi_row_shared.shared_shape(v) is None else "multi_row_shared"


def by_several_blocks(v: View, device: Device, knobs: Knobs) -> str:
    """The form for rows that one block doesn't take."""
    if not split_cluster.is_for_clusters(v, device):
        return by_columns(v, device) or "split_two_launches"
    held = split_cluster.cluster_shape(v, device, knobs) is not None
    return "split_cluster" if held and not _leaves_idle(v, device, knobs) else "split_grid"


def _leaves_idle(v: View, device: Device, knobs: Knobs) -> bool:
    """Whether a row is for large blocks, of which there are so few that the whole grid does better: for short rows the
    way through memory that it goes costs more."""
    for_large = split_cluster.small_shape(v, device, knobs) is None
    return for_large and split_cluster.leaves_idle(v, device, knobs) and v.n // v.vec > knobs.grid_vectors


def by_columns(v: View, device: Device) -> str | None:
    """The form for rows that lie across memory side by side; None if none is for such rows."""
    c = side_by_side(v)
    if c is None:
        return None
    together = has_clusters(device)
    if c.vector > 1:
        if c.n > COLUMN_LONG:
            if columns_cluster.shape(c, device) is not None:
                return "columns_cluster"
            if together and columns_grid.shape(c, device) is not None:
                return "columns_grid"
        if columns.shape(c, device) is not None:
            return "columns"
        return "columns_flat" if together and columns_flat.takes(v, device) else None
    flat = together and c.n >= FLAT_LONG and columns_flat.takes(v, device)
    if flat and columns_flat.alone(v) and c.n * c.inner * c.itemsize >= FLAT_BYTES:
        return "columns_flat"
    if c.n > SINGLE_LONG:
        if columns_cluster.shape(c, device) is not None:
            return "columns_cluster"
        if together and columns_ragged.shape(c, device) is not None:
            return "columns_ragged"
    return "columns_flat" if flat else None
