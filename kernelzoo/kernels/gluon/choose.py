"""Choosers that several operations share. Other operations have a ``choose.py`` of their own."""

import torch

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.held_rows import longest_row
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import should_split_rows
from kernelzoo.layout import layouts_of, rows_of
from kernelzoo.registry import chooser


@chooser("gluon", "argmin", "auto")
@chooser("gluon", "cross_entropy", "auto")
@chooser("gluon", "cumsum", "auto")
@chooser("gluon", "logsumexp", "auto")
@chooser("gluon", "sum", "auto")
def rows_or_split(x: torch.Tensor, *others: torch.Tensor, **scalars: int) -> str:
    """Several programs share each row if rows are long and few. Otherwise one program takes several rows."""
    return "split" if should_split_rows(rows_of(x, others[-1]), device_of(x)) else "rows"


@chooser("gluon", "softmax_backward", "auto")
@chooser("gluon", "min_backward", "auto")
def fused_or_streamed(x: torch.Tensor, *others: torch.Tensor) -> str:
    """Rows that fit on chip are read once. Longer rows are read twice, each by several programs if rows are few."""
    *beside, out = others
    rows, strides = layouts_of(x, out, *beside)
    whole = [one for one, tensor in zip(strides, beside, strict=True) if tensor.ndim == 3]  # n elements per row
    return "fused" if rows.n <= longest_row(rows, 1 + len(whole)) else tiles.online_or_split(device_of(x), rows, *whole)
