"""A program takes whole rows block by block; the running minimum stays a tile until the row has ended."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.cutile.min.ragged_kernel import launch_of_ragged
from kernelzoo.kernels.cutile.min.tiles import Numbers, plain, row_tile
from kernelzoo.kernels.cutile.tiles import is_ragged
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("cutile", "min", "rows_deferred_block")
def rows_deferred_block(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    knobs = of(Numbers, device_of(x).index)
    tile = row_tile(knobs, knobs.deferred_bytes, rows)
    id = "cutile/min/rows_deferred_block"
    if tile.shape[:2] == (1, 1) and is_ragged(rows, x):
        return launch_of_ragged(id, x, out, rows, tile, deferred=True)
    return launch_deferred(id, x, out, rows, tile)
