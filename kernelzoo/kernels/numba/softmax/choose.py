import torch

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.launch import cached_decision, chooser_by_layout, has_clusters
from kernelzoo.kernels.numba.softmax import columns, fused, online, split_cluster
from kernelzoo.kernels.numba.softmax.exact import view_for_exact_sums
from kernelzoo.kernels.numba.softmax.on_chip import HELD
from kernelzoo.kernels.numba.tiling import RowView, find_vector_columns, short_row_tiling
from kernelzoo.layout import cdiv
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

SHORT_ACROSS = 96
"""The longest column, in elements, for which the form fused is preferred to columns."""
FEW_ACROSS, FEW_ACROSS_ROWS = 16, 384
"""The most elements of a strided row for one thread. In half precision, this also needs that many rows per SM."""


@launch_table("numba", "softmax")
class Knobs(fused.Knobs, split_cluster.Knobs):
    # From 192 vectors on, a block of two warps is faster than a warp, unless rows have edges.
    warp_vectors: int = knob(
        192, among=(64, 128, 192, 256), unit="vectors", why="of the longest row without edges that one warp takes"
    )
    held_vectors: int = knob(
        2048, among=(2048, 4096, 8192), unit="vectors", why="of one block's longest row, of halves or in two waves"
    )
    few_vectors: int = knob(
        4096, among=(1024, 2048, 4096), unit="vectors", why="of the longest row that has one block, if rows are few"
    )
    few_rows: int = knob(1, among=(1, 2, 4), unit="rows per SM", why="below which rows are few")
    grid_vectors: int = knob(
        4096, among=(2048, 4096, 8192), unit="vectors", why="of a row, above which the whole grid takes few rows"
    )


@chooser("numba", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> str:
    """A warp, or a part of one, keeps each short row in registers. A block processes several rows."""
    return "multi_row_tile"


@chooser("numba", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row and keep it on chip: a cluster, or the grid for longer rows or without clusters."""
    return cached_decision(choose_for_several_blocks, Knobs, x, out)


@chooser("numba", "softmax", "auto")
@chooser_by_layout(Knobs)
def auto(v: RowView, knobs: Knobs) -> str:
    """Return the fastest form for the row's length and the number of rows."""
    v = view_for_exact_sums(v)
    if v.is_strided:
        return choose_for_columns(v, knobs)
    # In float64, a block is faster than a warp if a lane would have more than four vectors.
    longest = min(4 * WARP, knobs.warp_vectors) if v.dtype == "float64" else knobs.warp_vectors
    short = (v.edges and v.dtype != "float64") or v.n <= longest * v.vec
    if short and short_row_tiling(v) is not None:
        return "multi_row_tile"
    # One block per row, unless the row is too long for 512 threads' registers and so few rows leave SMs idle.
    few = v.planned < knobs.few_rows * v.device.multiprocessors
    most = knobs.few_vectors if few else 512 * HELD if v.edges else 1024 * HELD
    # In a second wave of blocks that fill an SM each, most SMs have no work.
    second = v.itemsize == 4 and v.planned < 2 * v.device.multiprocessors
    if (v.itemsize == 2 or second) and not few and has_clusters(v.device):
        most = knobs.held_vectors
    several = v.has_full_vectors or split_cluster.cluster_shape(v, knobs) is not None
    if fused.fused_tiling(v, knobs) is not None and (v.n // v.vec <= most or not several):
        return "fused"
    return choose_for_several_blocks(v, knobs)


def choose_for_several_blocks(v: RowView, knobs: Knobs) -> str:
    """Return the form for rows that several blocks share. split_grid is for rows that fit in no cluster, and for long
    rows whose large blocks would leave SMs idle. Its exchange through memory costs too much for short rows."""
    v = view_for_exact_sums(v)
    if columns_fit_cluster(v):
        return "columns"
    if split_cluster.cluster_shape(v, knobs) is None:
        return "split_grid"
    for_large = split_cluster.small_cluster_shape(v, knobs) is None
    idle = for_large and split_cluster.wastes_sms(v, knobs) and v.n // v.vec > knobs.grid_vectors
    return "split_grid" if idle else "split_cluster"


def choose_for_columns(v: RowView, knobs: Knobs) -> str:
    """Return the form for strided rows."""
    many = v.itemsize > 2 or v.total >= FEW_ACROSS_ROWS * v.device.multiprocessors
    most = FEW_ACROSS if v.evenly_spaced_rows >= WARP else 2 * FEW_ACROSS  # with so few neighbours a block's lanes idle
    if many and v.n <= most and short_row_tiling(v) is not None:
        return "multi_row_tile"
    if v.n > SHORT_ACROSS and columns_fit_cluster(v):
        return "columns"
    if fused.fused_tiling(v, knobs) is not None:
        return "fused"
    # split_grid reads single columns. It wastes most of each vector, but leaves no SM idle.
    idle = 4 * cdiv(v.total, online.online_tiling(v).rows) < v.device.multiprocessors
    return "split_grid" if idle else "online"


def columns_fit_cluster(v: RowView) -> bool:
    """Whether rows are columns that fit in the registers of a cluster's blocks."""
    c = find_vector_columns(v)
    return c is not None and columns.block_shape(c, v.device) is not None
