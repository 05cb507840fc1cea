import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy import clusters
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.rows import PACKS_HELD, WARP, count_packs, fits_one_thread, rows_are_aligned
from kernelzoo.kernels.cupy.softmax import columns, fused, multi_row_lanes, split_cluster, split_ring
from kernelzoo.kernels.cupy.softmax.exact import plan_exact_sums
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

LANES_PACKS = 48  # per float32 row: with fewer, multi_row_lanes is faster, except at powers of two
LANES_BYTES = 2**22  # of all rows together: multi_row_lanes is faster from so many bytes on
TILE_ROWS, TILE_LEAST = 64, 64  # rows per SM, elements per row: in half precision, tiles win up to and above these


@launch_table("cupy", "softmax")
class Knobs(fused.Knobs, multi_row_lanes.Knobs, split_cluster.Knobs, split_ring.Knobs, columns.Knobs):
    warp_packs: int = knob(7 * WARP, among=(128, 192, 224, 256), unit="packs", why="of a warp's longest row")
    # A block of 256 threads. An SM runs several of these, and a cluster of them is faster than a larger block.
    fused_packs: int = knob(256 * PACKS_HELD, among=(1024, 2048, 4096, 8192), unit="packs", why="a block's longest row")
    alone_packs: int = knob(2048, among=(512, 1024, 2048), unit="packs", why="of that where rows leave SMs idle")
    fused_percent: int = knob(100, among=(50, 100, 200), unit="% of the SMs", why="with a row, that leave none idle")


@chooser("cupy", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Choose the fastest form by the rows' length, and then by their number."""
    rows, exact, device, knobs = _problem_of(x, out)
    if fits_one_thread(rows):
        return "multi_row_tile"
    if rows.as_columns is not None:
        return "columns"
    count = count_packs(rows)
    if count <= knobs.warp_packs:
        return _choose_multi_row(rows, device)
    if not clusters.can_use_clusters(rows, device):
        return "fused" if count <= fused.MOST_PACKS else "online"
    # One block per row, if an SM can run several such blocks. If SMs would be idle, only rows up to alone_packs.
    many = 100 * rows.planned >= knobs.fused_percent * device.multiprocessors
    # In double, an SM is as busy with one such block as with two.
    longest = knobs.fused_packs if rows.itemsize < 8 else max(knobs.fused_packs, 512 * PACKS_HELD)
    if count <= longest and (many or count <= knobs.alone_packs):
        return "fused"
    return _choose_split(rows, device, knobs, exact)


@chooser("cupy", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> str:
    """A block reads many short rows into registers or, as one piece, into shared memory; or columns into registers."""
    rows, _, device, _ = _problem_of(x, out)
    if fits_one_thread(rows):
        return "multi_row_tile"
    if rows.as_columns is None:
        return _choose_multi_row(rows, device)
    if (held := columns.one_block_strip(rows.as_columns).elements) < rows.n:
        reason = f"a column of {rows.n} elements doesn't fit in a block's registers: {held} do"
        raise UnsupportedProblemError("cupy/softmax/multi_row", reason)
    return "columns"


@chooser("cupy", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row or columns, and merge (max, sum) pairs. Rows that can't be split have one block."""
    rows, exact, device, knobs = _problem_of(x, out)
    return _choose_split(rows, device, knobs, exact) if rows.as_columns is None else "columns"


def _problem_of(x: torch.Tensor, out: torch.Tensor) -> tuple[Rows, str, Device, Knobs]:
    device = device_of(x)
    return *plan_exact_sums(rows_of(x, out)), device, tables.of(Knobs, device.index)


def _choose_multi_row(rows: Rows, device: Device) -> str:
    if not multi_row_lanes.can_use_lanes(rows):
        return "multi_row_tile"
    if rows_are_aligned(rows):
        return "multi_row_lanes" if _tile_leaves_lanes_idle(rows) else "multi_row_tile"
    few = rows.planned <= TILE_ROWS * device.multiprocessors
    return "multi_row_tile" if rows.itemsize == 2 and rows.n > TILE_LEAST and few else "multi_row_lanes"


def _tile_leaves_lanes_idle(rows: Rows) -> bool:
    """Whether rows are many, and multi_row_tile would leave lanes idle: packs per row are no power of two."""
    count = count_packs(rows)
    uneven = count & (count - 1) != 0 and (rows.itemsize == 2 or count < LANES_PACKS)
    return uneven and rows.planned * rows.n * rows.itemsize >= LANES_BYTES


def _choose_split(rows: Rows, device: Device, knobs: Knobs, exact: str) -> str:
    if not clusters.can_use_clusters(rows, device):
        return "online"
    _, _, threads = split_cluster.choose_cluster_shape(rows, device, knobs)
    fits = threads <= clusters.THREADS
    # If an SM runs only one or two such blocks, a cluster rarely finds free SMs. Half precision is bound by arithmetic.
    few = 2 * rows.planned <= device.multiprocessors and rows.itemsize >= 4 and threads > knobs.cluster_threads
    # A ring adds exponentials in order. So it can't process rows whose exponentials must be added exactly.
    if (few or not fits) and not exact and split_ring.can_use_ring(rows, device):
        return "split_ring"
    return "split_cluster" if fits else "online"
