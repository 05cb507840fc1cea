"""Canonical tensors, in the shapes that a user of torch would have."""

import torch


def drop_unit_axis(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the tensors and the axis to reduce. An inner axis of size 1 is dropped, since torch is then faster."""
    return (x[..., 0], out[..., 0], 1) if x.size(2) == 1 else (x, out, 1)


def drop_unit_axes(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Do as ``drop_unit_axis`` for any number of tensors. The first has all three axes, and the axis to reduce is 1."""
    return tuple(tensor[..., 0] for tensor in tensors) if tensors[0].size(2) == 1 else tensors
