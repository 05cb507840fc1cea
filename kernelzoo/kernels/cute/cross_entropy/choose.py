"""Which form of a cross entropy takes a problem."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.shared.long_rows import takes_split
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("cute", "cross_entropy", "auto")
def auto(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> str:
    """Several blocks to each row where rows are long and few, else a block to one or several."""
    return "split" if takes_split(rows_of(x, loss), device_of(x)) else "rows"
