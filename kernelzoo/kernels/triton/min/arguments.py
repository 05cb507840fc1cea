"""What the forms of the minimum hand to their kernels beside the layout."""

import torch

from kernelzoo.layout import Rows


def identity(dtype: torch.dtype) -> float | int:
    """What a minimum over nothing would be: no element is above it."""
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor as Triton can load and compare it: bool as the byte it is."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def fold_of(rows: Rows, dtype: torch.dtype, block: int) -> int:
    """Neighbouring columns that one thread loads, and can reduce by itself: FOLD of ``folded``."""
    return min(16 // dtype.itemsize, block) if rows.x_n == 1 and not rows.across and dtype.is_floating_point else 1
