"""A submission to clamped_linear.py: the same weights, by the same seed."""

import torch
from torch import nn


class ModelNew(nn.Module):
    """One product, clamped in place."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()).clamp_(-1.0, 1.0)
