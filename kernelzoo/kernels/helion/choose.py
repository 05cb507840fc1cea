"""Choosers that several operations share. Other operations have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.shared.cut import choose_gradient_variant
from kernelzoo.kernels.shared.held_rows import longest_row
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import should_split_rows
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("helion", "argmin", "auto")
@chooser("helion", "cross_entropy", "auto")
@chooser("helion", "cumsum", "auto")
@chooser("helion", "logsumexp", "auto")
@chooser("helion", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several programs share each row if rows are long and few. Otherwise each row has one program."""
    return "split" if should_split_rows(rows_of(x, others[-1]), device_of(x)) else "rows"


@chooser("helion", "softmax_backward", "auto")
@chooser("helion", "min_backward", "auto")
def fused_or_streamed(x: torch.Tensor, *others: torch.Tensor) -> str:
    """A row stays on chip if it fits. A longer row is read twice, by one program or, if rows are few, by several."""
    rows, inputs = rows_of(x, others[-1]), sum(one.ndim == 3 for one in others)  # inputs with n elements per row
    if rows.n <= longest_row(rows, inputs):
        return "fused"
    tile_count = tiles.loop_tile(rows, tiles.BLOCK_BYTES // 2).count_tiles(rows.with_planned_rows)
    return choose_gradient_variant(tile_count, device_of(x))
