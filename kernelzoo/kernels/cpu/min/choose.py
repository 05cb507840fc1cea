import torch

from kernelzoo.kernels.cpu.launch import count_tasks, move_lanes_last, vectorises_across
from kernelzoo.kernels.cpu.min.rows import LANES
from kernelzoo.registry import chooser


@chooser("cpu", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Rows in parallel, or split where there are too few rows, or tiles of rows, to keep every thread at work."""
    rows, threads = x.size(0) * x.size(2), count_tasks(x.numel(), x.numel())
    oriented, _ = move_lanes_last(x, out)
    units = oriented.size(0) * -(-oriented.size(2) // LANES) if vectorises_across(oriented) else rows
    # With four units per thread, an uneven end takes at most a fifth of the time.
    return "split" if threads > 1 and units < 4 * threads else "rows"
