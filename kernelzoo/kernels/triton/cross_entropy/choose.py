import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import takes_split
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("triton", "cross_entropy", "auto")
def auto(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> str:
    """Several programs to each row where rows are long and few, else a program to several."""
    return "split" if takes_split(rows_of(x, loss), device_of(x)) else "rows"
