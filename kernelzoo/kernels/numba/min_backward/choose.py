"""Which form takes a problem: by the row's length, the number of rows, and how they lie in memory."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.numba.launch import View, settled
from kernelzoo.kernels.numba.min_backward import tiling
from kernelzoo.kernels.numba.words import WARP
from kernelzoo.registry import chooser

WARP_VECTORS = 6 * WARP
"""Of the longest row that a warp takes."""
SHARED_VECTORS = 2048
"""Of a row, above which the whole grid shares it, if rows are fewer than half of the SMs."""


@chooser("numba", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return settled(fastest, None, x, y, grad, out)


def fastest(v: View, device: Device, _: None) -> str:
    """The form for any problem."""
    if v.across:
        return "multi_row_tile" if tiling.short_rows(v) is not None else "columns"
    vectors = v.n // v.vec
    if vectors <= WARP_VECTORS and tiling.short_rows(v) is not None:
        return "multi_row_tile"
    if 2 * v.total <= device.multiprocessors and vectors > SHARED_VECTORS:
        return "split_grid"
    return "fused" if tiling.whole_row(v) is not None else "split_grid"
