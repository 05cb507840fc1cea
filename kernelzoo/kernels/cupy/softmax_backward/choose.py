"""Which form takes a problem: by row length first, then by the number of rows, and for columns by their height."""

import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.kernels.cupy.gradients import columns as strips
from kernelzoo.kernels.cupy.gradients.rows import packs, width
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.rows import WARP, thread_has_row
from kernelzoo.kernels.cupy.softmax_backward import fused, split_cluster
from kernelzoo.kernels.cupy.softmax_backward.held import held
from kernelzoo.layout import Rows, Strides, rows_with
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table

LONG_CLUSTER = 8
"""Blocks of a cluster whose rows are long."""


@launch_table("cupy", "softmax_backward")
class Knobs(split_cluster.Numbers):
    """What depends on the card."""

    warp_packs: int = knob(
        4 * WARP, among=(64, 96, 128, 192), unit="packs", why="of the longest row that one warp takes"
    )
    fused_packs: int = knob(2048, among=(1024, 2048, 4096), unit="packs", why="of the longest row that has one block")
    alone_packs: int = knob(
        1024,
        among=(512, 1024, 2048),
        unit="packs",
        why="of the longest row that has one block where rows are too few for all SMs",
    )


@chooser("cupy", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest of the others for the problem: by row length first, then by the number of rows."""
    rows, beside, device, knobs = _given(grad, y, out)
    if thread_has_row(rows):
        return "multi_row_tile"
    if rows.columns is not None:
        columns, others = strips.columns_of("cupy/softmax_backward/auto", rows, beside)
        wide = strips.vector(columns, *others)
        strip = strips.whole(columns, wide, held(columns, wide), device)
        return "split_grid" if strips.suits_split(columns, strip, device) else "columns"
    wide = width(rows, beside)
    count = packs(rows, wide)
    if count <= knobs.warp_packs:
        return "multi_row_tile"
    clustered = device.cluster_blocks > 1 and wide > 1
    longest = 1024 * fused.packs_held(rows, device)
    longest = min(longest, knobs.fused_packs) if clustered else longest
    many = rows.total >= device.multiprocessors
    if count <= longest and (many or count <= knobs.alone_packs):
        return "fused"
    if wide == 1 and many:
        return "online"
    return _split(rows, beside, device, knobs)


@chooser("cupy", "softmax_backward", "split")
def split(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share a row and add up their sums: a cluster, or the whole grid for longer or fewer rows."""
    return _split(*_given(grad, y, out))


def _given(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[Rows, Strides, Device, Knobs]:
    device = device_of(grad)
    rows, (beside,) = rows_with(grad, out, y)
    return rows, beside, device, tables.of(Knobs, device.index)


def _split(rows: Rows, y: Strides, device: Device, knobs: Knobs) -> str:
    if rows.columns is not None or device.cluster_blocks == 1 or width(rows, y) == 1:
        return "split_grid"
    cluster, threads = split_cluster.block_of(rows, device, knobs)
    # So few clusters leave most SMs out, which long rows have work for.
    few = 2 * cluster * rows.total <= device.multiprocessors and cluster >= LONG_CLUSTER
    return "split_grid" if few or threads > split_cluster.most_threads(device) else "split_cluster"
