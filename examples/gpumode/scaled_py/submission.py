"""A submission: in float32, into the memory that the problem provides."""

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    x, out = data
    wide = x.float()
    return out.copy_(wide / wide.abs().amax(-1, keepdim=True))
