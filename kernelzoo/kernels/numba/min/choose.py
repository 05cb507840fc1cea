"""Which form of the minimum takes a problem."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.numba.launch import View, has_clusters, settled
from kernelzoo.kernels.numba.min import (
    atomics,
    columns_flat,
    rows_deferred_shared,
    rows_deferred_thread,
    rows_tiling,
    split_arrival,
    strips,
)
from kernelzoo.kernels.numba.thread_rows import share
from kernelzoo.layout import cdiv
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

BLOCK_ROWS, BLOCK_LEAST = 128, 56
"""Rows of half precision per SM up to which a block reads each by itself, of more elements than that."""


@launch_table("numba", "min")
class Knobs(rows_tiling.Numbers, rows_deferred_thread.Numbers, split_arrival.Numbers, atomics.Numbers, strips.Numbers):
    """What depends on the card. Shipped values are an H200's."""

    thread_elements: int = knob(
        32, among=(16, 24, 32, 40, 80), unit="elements", why="of the longest row of which a thread has whole ones"
    )
    # 32 kB a block, of which an SM holds six.
    tile_row_bytes: int = knob(
        256,
        among=(64, 128, 256),
        unit="bytes",
        why="of rows off the boundaries of vectors, read as one piece of memory",
    )
    split_rows: int = knob(64, among=(16, 32, 64, 128, 256), unit="rows", why="up to which long ones are split")
    across_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="across rows, below which rows are split")
    cluster_least: int = knob(6, among=(6, 12, 24), unit="rows", why="from which a cluster takes a row each")
    cluster_most: int = knob(64, among=(32, 64, 128), unit="rows", why="up to which a cluster takes a row each")
    columns_long: int = knob(
        33, among=(33, 64, 128, 512), unit="elements", why="of columns, from which vectors read them"
    )


@chooser("numba", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Parallel over rows, unless they are too few to fill the device and long enough to be worth splitting."""
    return settled(best, Knobs, x, out)


@chooser("numba", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> str:
    """One block to a row, or a part of one: columns by vectors across them, short rows in shared memory, or along."""
    return settled(one_block, Knobs, x, out)


@chooser("numba", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks per row: in a cluster that sends minima to its first block, or by the last block to arrive."""
    return settled(several_blocks, Knobs, x, out)


def best(v: View, device: Device, knobs: Knobs) -> str:
    """The form for any problem."""
    if is_flat(v, device):
        return "columns_flat"
    if has_clusters(device) and v.n >= knobs.columns_long:
        cut = strips.cut(v, device.multiprocessors, knobs, strips.CLUSTER)
        if cut is not None:
            return "columns_cluster" if cut[2] > 1 else "columns"
    tiling = rows_tiling.rows_tiling(v, knobs)
    if v.across:
        groups = cdiv(v.total, tiling.rows * tiling.stack)
        few = groups < knobs.across_blocks * device.multiprocessors and v.n > 2 * tiling.lanes * tiling.size
    else:
        few = v.total <= knobs.split_rows and v.n > 256 * tiling.size
    return several_blocks(v, device, knobs) if few and not is_short(v, device, knobs) else one_block(v, device, knobs)


def one_block(v: View, device: Device, knobs: Knobs) -> str:
    """The form that has one block, or a part of one, to a row."""
    if v.n >= knobs.columns_long and strips.cut(v, device.multiprocessors, knobs, 1) is not None:
        return "columns"
    own = share(v, knobs.thread_bytes) if v.n <= knobs.thread_elements else None
    if own is not None and own.fills(v.total, device):
        return "rows_deferred_thread"
    return "rows_deferred_shared" if is_short(v, device, knobs) else "rows_deferred_block"


def several_blocks(v: View, device: Device, knobs: Knobs) -> str:
    """The form that has several blocks to a row."""
    if is_flat(v, device):
        return "columns_flat"
    if has_clusters(device):
        if v.n >= knobs.columns_long and strips.cut(v, device.multiprocessors, knobs, strips.CLUSTER) is not None:
            return "columns_cluster"
        # With few blocks a row, the cluster's barrier is the shorter way than an arrival in memory; more rows fill the
        # device alone.
        if not v.across and knobs.cluster_least <= v.total <= knobs.cluster_most and 2**14 <= v.n <= 2**19:
            return "split_cluster"
    return "split_arrival"


def is_short(v: View, device: Device, knobs: Knobs) -> bool:
    """Whether these are short rows without a gap, off the boundaries of vectors, and not few of half precision."""
    if v.itemsize == 2 and v.n > BLOCK_LEAST and v.total <= BLOCK_ROWS * device.multiprocessors:
        return False
    return v.edges and v.n * v.itemsize <= knobs.tile_row_bytes and rows_deferred_shared.takes(v, device)


def is_flat(v: View, device: Device) -> bool:
    """Whether these are long columns, few, at a width that no vector divides, or too few for clusters on strips."""
    if v.n < 1024 or not columns_flat.takes(v):
        return False
    if v.neighbours % v.whole_vector:
        return True
    cut = strips.strips(v, strips.NARROW, strips.MOST_THREADS)
    return cut is not None and strips.are_few(*cut, strips.CLUSTER, device.multiprocessors)
