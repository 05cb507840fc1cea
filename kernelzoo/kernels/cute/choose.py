"""Which form takes a problem, of operations that choose alike; others have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.tiles import block, longest_row, problem
from kernelzoo.kernels.shared.cut import streamed
from kernelzoo.kernels.shared.long_rows import takes_split
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("cute", "argmin", "auto")
@chooser("cute", "cross_entropy", "auto")
@chooser("cute", "cumsum", "auto")
@chooser("cute", "logsumexp", "auto")
@chooser("cute", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several blocks to each row where rows are long and few, else a block to one or several."""
    return "split" if takes_split(rows_of(x, others[-1]), device_of(x)) else "rows"


@chooser("cute", "softmax_backward", "auto")
@chooser("cute", "min_backward", "auto")
def fused_or_streamed(x: torch.Tensor, *others: torch.Tensor) -> str:
    """Rows that a block holds; longer ones are read twice, by one block if they are many, else by several."""
    given, inputs = problem(x, others[-1], *others[:-1]), sum(one.ndim == 3 for one in others)  # that have whole rows
    return (
        "fused"
        if given.n <= longest_row(given, inputs)
        else streamed(block(given, inputs).count(given.planned), device_of(x))
    )
