"""Choosers that several operations share. Other operations have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import should_split_rows
from kernelzoo.kernels.triton.gradients import choose_fused_or_split
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("triton", "argmin", "auto")
@chooser("triton", "cross_entropy", "auto")
@chooser("triton", "cumsum", "auto")
@chooser("triton", "logsumexp", "auto")
@chooser("triton", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several programs share each row if rows are long and few. Otherwise one program takes several rows."""
    return "split" if should_split_rows(rows_of(x, others[-1]), device_of(x)) else "rows"


@chooser("triton", "softmax_backward", "auto")
@chooser("triton", "min_backward", "auto")
def fused_or_split(*tensors: torch.Tensor) -> str:
    """A program takes a tile of short rows, or a row that fits on chip. Several programs share a longer row.

    A tile has short columns, and a strip has adjacent long columns. Several programs share a strip too long for one.
    """
    return choose_fused_or_split(tensors, sum(one.ndim == 3 for one in tensors[:-1]))  # inputs with n elements per row
