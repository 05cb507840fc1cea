"""Which form takes a problem, of operations that choose alike; others have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.tiles import longest_row, problem, streamed
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
def softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Rows that a block holds; longer ones are read twice, by one block if they are many, else by several."""
    given = problem(grad, out, y)
    return "fused" if given.n <= longest_row(given, 2) else streamed(device_of(grad), given, 2)


@chooser("cute", "min_backward", "auto")
def min_backward(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Rows that a block holds; longer ones are read twice, by one block if they are many, else by several."""
    given = problem(x, out, y, grad)
    return "fused" if given.n <= longest_row(given, 1) else streamed(device_of(x), given, 1)
