"""The bits of tensors."""

from __future__ import annotations

from kernelzoo.lazy import torch


def poison_like(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor of x's shape and dtype that differs from x in the bits of every element."""
    return ~x if x.dtype == torch.bool else (bits(x) ^ 0x55).view(x.dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor's elements as integers, so that NaN and signed zeros compare by their bits."""
    if x.dtype == torch.bool:
        return x.contiguous().view(torch.uint8)
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.resolve_neg().contiguous().view(integer)
