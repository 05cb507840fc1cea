import torch

from kernelzoo.kernels.numba.launch import View, settled
from kernelzoo.kernels.numba.min_backward.fused import fused_tiling
from kernelzoo.kernels.numba.min_backward.online import online_tiling
from kernelzoo.layout import cdiv
from kernelzoo.registry import chooser

SHARED_VECTORS = 2048
"""Of a row, above which the whole grid shares it, if rows are fewer than half of the SMs."""


@chooser("numba", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return settled(fastest, None, x, y, grad, out)


def fastest(v: View) -> str:
    """The form for any problem."""
    few = 2 * v.planned <= v.device.multiprocessors and v.n // v.vec > SHARED_VECTORS
    if (v.across or not few) and fused_tiling(v) is not None:
        return "fused"
    # Of columns the grid goes down single ones: it wastes most of each vector, but leaves no SM idle.
    few = (4 if v.across else 1) * cdiv(v.planned, online_tiling(v).rows) < v.device.multiprocessors
    return "split_grid" if few else "online"
