"""Several programs take a strip of neighbouring columns in parts; the last to arrive joins their minima: one launch."""

import torch

from kernelzoo.kernels.cutile.min.split_kernel import launch_in_parts
from kernelzoo.kernels.cutile.min.tiles import column_tile, plain
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "min", "columns_split")
def columns_split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to a strip of neighbouring columns; the last to arrive joins their minima: one launch."""
    x, out = plain(x), plain(out)
    id, rows = "cutile/min/columns_split", rows_of(x, out)
    return launch_in_parts(id, x, out, rows, column_tile(rows, id))
