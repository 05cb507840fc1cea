"""A program takes a strip of neighbouring columns as a whole."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min.deferred_kernel import rows_deferred_kernel
from kernelzoo.kernels.gluon.min.tiles import column_tile, kinds, plain
from kernelzoo.kernels.shared.jit import bound
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("gluon", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over strips of neighbouring columns, each read from top to bottom by one program."""
    id = "gluon/min/columns"
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    if not rows.across:
        raise UnsupportedProblemError(id, "it takes columns, and the rows of this problem don't lie across memory")
    tile = column_tile(rows)
    args = (x, out, *tiles.place_arguments(rows, tile), *kinds(rows, x.dtype, tile))
    return bound(id, x, rows_deferred_kernel, tile.count(rows), args, tile.warps)
