"""Several programs take a row in parts and leave partial minima; the last to arrive reduces them: one launch."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.min.ragged_kernel import launch_ragged_in_parts
from kernelzoo.kernels.cutile.min.split_kernel import launch_in_parts
from kernelzoo.kernels.cutile.min.tiles import Numbers, plain, row_tile
from kernelzoo.kernels.cutile.tiles import is_ragged
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("cutile", "min", "split_arrival")
def split_arrival(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row leave partial minima in a workspace, and the last to arrive reduces them: one launch.

    The launch leaves its count of arrivals at zero, and so may be repeated.
    """
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    knobs = of(Numbers, device_of(x).index)
    tile = row_tile(knobs, knobs.deferred_bytes, rows)
    id = "cutile/min/split_arrival"
    if tile.shape[:2] == (1, 1) and is_ragged(rows, x):
        return launch_ragged_in_parts(id, x, out, rows, tile)
    return launch_in_parts(id, x, out, rows, tile)
