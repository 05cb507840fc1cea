"""Canonical tensors as a user of torch would hold them."""

import torch


def natural(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The tensors and the axis to reduce: torch has faster kernels where that is the last."""
    return (x[..., 0], out[..., 0], 1) if x.size(2) == 1 else (x, out, 1)


def naturals(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Any number of them, the first with all three axes; the axis is 1."""
    return tuple(tensor[..., 0] for tensor in tensors) if tensors[0].size(2) == 1 else tensors
