"""Which form takes a problem: by the row's length, the number of rows, and how they lie in memory."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.numba.launch import View, settled
from kernelzoo.kernels.numba.softmax_backward import split_cluster, split_grid, tiling
from kernelzoo.kernels.numba.words import WARP
from kernelzoo.registry import chooser

WARP_VECTORS = 4 * WARP
"""Of the longest row that a warp takes."""
SHARED_VECTORS = 4 * split_grid.THREADS
"""Of a row, above which the whole grid shares it, if rows are fewer than half of the SMs."""


@chooser("numba", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return settled(fastest, None, grad, y, out)


def fastest(v: View, device: Device, _: None) -> str:
    """The form for any problem."""
    if v.across:
        return "multi_row_tile" if tiling.short_rows(v) is not None else "columns"
    vectors = v.n // v.vec
    if vectors <= WARP_VECTORS and tiling.short_rows(v) is not None:
        return "multi_row_tile"
    few = 2 * v.total <= device.multiprocessors and vectors > SHARED_VECTORS
    if not few and tiling.whole_row(v) is not None:
        return "fused"
    shape = split_cluster.cluster_shape(v, device)
    enough = shape is not None and 2 * v.total * shape[0] > device.multiprocessors
    return "split_cluster" if enough else "split_grid"
