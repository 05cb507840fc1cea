"""The chooser that several operations share. The other operations have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.shared.long_rows import should_split_rows
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("cupy", "argmin", "auto")
@chooser("cupy", "cross_entropy", "auto")
@chooser("cupy", "cumsum", "auto")
@chooser("cupy", "logsumexp", "auto")
@chooser("cupy", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several blocks share each row if rows are few and long. Otherwise a row has at most one block."""
    return "split" if should_split_rows(rows_of(x, others[-1]), device_of(x)) else "rows"
