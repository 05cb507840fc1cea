"""Which form takes a problem, of operations that choose alike; others have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import takes_split
from kernelzoo.kernels.triton.gradients import form
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("triton", "argmin", "auto")
@chooser("triton", "cross_entropy", "auto")
@chooser("triton", "cumsum", "auto")
@chooser("triton", "logsumexp", "auto")
@chooser("triton", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several programs to each row where rows are long and few, else a program to several."""
    return "split" if takes_split(rows_of(x, others[-1]), device_of(x)) else "rows"


@chooser("triton", "softmax_backward", "auto")
@chooser("triton", "min_backward", "auto")
def fused_or_split(*tensors: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, several programs to a longer one.

    Across rows, tiles of short columns, and strips of longer ones; several programs to each that none holds.
    """
    return form(tensors, sum(one.ndim == 3 for one in tensors[:-1]))  # inputs that have whole rows
