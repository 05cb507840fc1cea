import torch

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.rows import count_packs, pack_width
from kernelzoo.kernels.cupy.softmax_backward import fused, split_cluster
from kernelzoo.layout import Rows, Strides, layouts_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table


@launch_table("cupy", "softmax_backward")
class Knobs(fused.Knobs, split_cluster.Knobs):
    fused_packs: int = knob(2048, among=(1024, 2048, 4096), unit="packs", why="a block's longest row")
    alone_packs: int = knob(1024, among=(512, 1024, 2048), unit="packs", why="of that where rows leave SMs idle")


@chooser("cupy", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Choose the fastest form by the rows' length, and then by their number."""
    rows, beside, device, knobs = _problem_of(grad, y, out)
    if rows.as_columns is not None:
        return "fused"
    count, longest = count_packs(rows, beside), 1024 * fused.max_packs_per_thread(rows, device)
    if device.cluster_blocks > 1 and pack_width(rows, beside) > 1:
        longest = min(longest, knobs.fused_packs)
        if rows.planned < device.multiprocessors:
            longest = min(longest, knobs.alone_packs)
    return "fused" if count <= longest else _choose_split(rows, beside, device, knobs)


@chooser("cupy", "softmax_backward", "split")
def split(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """A cluster of blocks shares a row and exchanges sums. If a cluster can't store a row, one block reads it twice."""
    rows, beside, device, knobs = _problem_of(grad, y, out)
    return _choose_split(rows, beside, device, knobs) if rows.as_columns is None else "fused"


def _problem_of(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[Rows, Strides, Device, Knobs]:
    device = device_of(grad)
    rows, (beside,) = layouts_of(grad, out, y)
    return rows, beside, device, tables.of(Knobs, device.index)


def _choose_split(rows: Rows, y: Strides, device: Device, knobs: Knobs) -> str:
    if device.cluster_blocks == 1 or pack_width(rows, y) == 1:
        return "online"
    _, threads = split_cluster.choose_cluster_shape(rows, device, knobs)
    return "split_cluster" if threads <= split_cluster.max_threads_per_block(device) else "online"
