"""A problem as KernelBench writes them."""

import torch
from torch import nn


class Model(nn.Module):
    """A linear layer whose results are clamped."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).clamp(-1.0, 1.0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(128, 256)]


def get_init_inputs() -> list[int]:
    return [256, 64]
