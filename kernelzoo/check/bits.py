"""Tensors as the bits they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def poison_like(x: torch.Tensor) -> torch.Tensor:
    """A tensor whose every element has other bits than that of x."""
    import torch

    return ~x if x.dtype == torch.bool else (bits(x) ^ 0x55).view(x.dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as integers, so that NaN and the two zeros compare as the bits they are."""
    import torch

    if x.dtype == torch.bool:
        return x.contiguous().view(torch.uint8)
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.resolve_neg().contiguous().view(integer)
