"""Which form takes a problem, of operations that choose alike; others have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.numba.launch import View, settled
from kernelzoo.kernels.shared.long_rows import takes_split
from kernelzoo.registry import chooser


@chooser("numba", "argmin", "auto")
@chooser("numba", "cross_entropy", "auto")
@chooser("numba", "cumsum", "auto")
@chooser("numba", "logsumexp", "auto")
@chooser("numba", "sum", "auto")
def rows_or_split(*tensors: torch.Tensor, **scalars: int) -> str:
    """A block to a row, or several where rows are long, and too few to fill the device."""
    return settled(fastest, None, *tensors)


def fastest(v: View) -> str:
    """The form for any problem."""
    return "split" if takes_split(v, v.device) else "rows"
