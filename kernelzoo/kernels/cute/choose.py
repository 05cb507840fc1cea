"""The choosers that several operations share. The other operations have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.tiles import long_row_tile, longest_row, make_problem
from kernelzoo.kernels.shared.cut import choose_gradient_variant
from kernelzoo.kernels.shared.long_rows import should_split_rows
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("cute", "argmin", "auto")
@chooser("cute", "cross_entropy", "auto")
@chooser("cute", "cumsum", "auto")
@chooser("cute", "logsumexp", "auto")
@chooser("cute", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several blocks share each row if rows are long and few. Otherwise one block has one or several rows."""
    return "split" if should_split_rows(rows_of(x, others[-1]), device_of(x)) else "rows"


@chooser("cute", "softmax_backward", "auto")
@chooser("cute", "min_backward", "auto")
def fused_or_streamed(x: torch.Tensor, *others: torch.Tensor) -> str:
    """One block reads a row if its registers can store the row. Others are read twice: if few, by several blocks."""
    given, inputs = make_problem(x, others[-1], *others[:-1]), sum(one.ndim == 3 for one in others)  # inputs with rows
    return (
        "fused"
        if given.row_length <= longest_row(given, inputs)
        else choose_gradient_variant(long_row_tile(given, inputs).count_tiles(given.planned_row_count), device_of(x))
    )
