"""Which form of a logarithm of a sum of exponentials takes a problem."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.shared.long_rows import takes_split
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("cute", "logsumexp", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks to each row where rows are long and few, else a block to one or several."""
    return "split" if takes_split(rows_of(x, out), device_of(x)) else "rows"
