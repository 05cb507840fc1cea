"""Several programs take a row in parts and leave partial minima; the last to arrive reduces them: one launch."""

import torch

from kernelzoo.kernels.gluon.min.split_kernel import launch_in_parts
from kernelzoo.kernels.gluon.min.tiles import Numbers, plain, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("gluon", "min", "split_arrival")
def split_arrival(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row leave partial minima in a workspace, and the last to arrive reduces them: one launch.

    The launch leaves its count of arrivals at zero, and so may be repeated.
    """
    x, out = plain(x), plain(out)
    device = device_of(x)
    tile = row_tile(of(Numbers, device.index), device, rows_of(x, out))
    return launch_in_parts("gluon/min/split_arrival", x, out, tile)
