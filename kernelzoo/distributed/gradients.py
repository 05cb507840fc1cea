"""Gradients over an axis that ranks share: each sums over its shard, they exchange a number a row, each finishes.

The local passes are torch's own operations, whatever the backend: the sums are few, and their order is fixed.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelzoo.distributed.exchange import Groups, gathered
from kernelzoo.distributed.minimum import minimum
from kernelzoo.distributed.shards import softmax


def _added(total: torch.Tensor, groups: Groups) -> torch.Tensor:
    """The sum over all ranks, in their order."""
    for group in groups:
        total = gathered(total, group).sum(0)
    return total


def softmax_backward(grad: torch.Tensor, y: torch.Tensor, dim: int, groups: Groups) -> torch.Tensor:
    """Gradient of a softmax's shard, of checked arguments."""
    wide = torch.promote_types(grad.dtype, torch.float32)
    widened, weights = grad.to(wide), y.to(wide)
    total = _added((widened * weights).sum(dim), groups)
    return (weights * (widened - total.unsqueeze(dim))).to(grad.dtype)


def min_backward(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, dim: int, groups: Groups) -> torch.Tensor:
    """Gradient of a minimum's shard, of checked arguments; y and grad without the axis."""
    lowest = x == y.unsqueeze(dim)
    count = _added(lowest.sum(dim, dtype=torch.float64), groups).unsqueeze(dim)
    wide = torch.promote_types(x.dtype, torch.float32)
    return (lowest * grad.unsqueeze(dim).to(wide) / count.to(wide)).to(x.dtype)


class Softmax(torch.autograd.Function):
    """A softmax whose gradient is one number a row of exchange too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str) -> torch.Tensor:
        y = softmax(x, dim, groups, backend, exchange)
        ctx.save_for_backward(y)
        ctx.dim, ctx.groups = dim, groups
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        (y,) = ctx.saved_tensors
        return softmax_backward(grad, y, ctx.dim, ctx.groups), None, None, None, None


class Min(torch.autograd.Function):
    """A minimum whose gradient is shared evenly among equal minima on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
        y = minimum(x, dim, keepdim, groups, backend)
        ctx.save_for_backward(x, y)
        ctx.dim, ctx.keepdim, ctx.groups = dim, keepdim, groups
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, y = ctx.saved_tensors
        if ctx.keepdim:
            y, grad = y.squeeze(ctx.dim), grad.squeeze(ctx.dim)
        return min_backward(x, y, grad, ctx.dim, ctx.groups), None, None, None, None
