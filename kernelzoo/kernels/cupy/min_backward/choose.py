import torch

from kernelzoo import tables
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.min_backward import fused
from kernelzoo.kernels.cupy.rows import count_packs, pack_width
from kernelzoo.layout import layouts_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table


@launch_table("cupy", "min_backward")
class Knobs(fused.Knobs):
    alone_packs: int = knob(2048, among=(1024, 2048, 4096), unit="packs", why="of that where rows leave SMs idle")
    fill_percent: int = knob(100, among=(50, 100, 200), unit="% of the SMs", why="with a row, that leave none idle")


@chooser("cupy", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Choose the fastest form by the rows' length, and then by their number."""
    device = device_of(x)
    rows, _ = layouts_of(x, out, y, grad)
    knobs = tables.of(Knobs, device.index)
    if rows.as_columns is not None:
        return "fused"
    many = 100 * rows.planned >= knobs.fill_percent * device.multiprocessors
    longest = 1024 * fused.max_packs_per_thread(rows, device)
    if count_packs(rows) <= (longest if many else min(longest, knobs.alone_packs)):
        return "fused"
    return "online" if pack_width(rows) == 1 and many else "split_grid"
