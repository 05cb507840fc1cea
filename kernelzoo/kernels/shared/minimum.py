"""What the minimum's forms hand to kernels alike in every language that takes torch's tensors."""

import torch


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor as it can be loaded and compared: bool as the byte it is."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def identity(dtype: torch.dtype) -> float | int:
    """What a minimum over nothing would be: no element is above it."""
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max
