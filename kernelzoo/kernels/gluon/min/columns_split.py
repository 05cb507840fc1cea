"""Several programs take a strip of neighbouring columns in parts; the last to arrive joins their minima: one launch."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.gluon.min.split_kernel import launch_in_parts
from kernelzoo.kernels.gluon.min.tiles import column_tile, plain
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("gluon", "min", "columns_split")
def columns_split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to a strip of neighbouring columns; the last to arrive joins their minima: one launch."""
    id = "gluon/min/columns_split"
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    if not rows.across:
        raise UnsupportedProblemError(id, "it takes columns, and the rows of this problem don't lie across memory")
    return launch_in_parts(id, x, out, column_tile(rows))
