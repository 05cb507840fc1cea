"""Gradients over an axis that ranks share: each sums over its shard, exchanges a number a row, and finishes."""

from __future__ import annotations

from typing import Any

import torch

from kernelzoo.distributed import plans
from kernelzoo.distributed.exchange import Groups
from kernelzoo.distributed.minimum import minimum


class Softmax(torch.autograd.Function):
    """A softmax whose gradient exchanges one number a row."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str) -> torch.Tensor:
        y = plans.softmax(x, dim, groups, backend, exchange)
        ctx.save_for_backward(y)
        ctx.dim, ctx.groups, ctx.backend = dim, groups, backend
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        (y,) = ctx.saved_tensors
        found = plans.run("softmax_backward", (grad, y), (), (), ctx.dim, ctx.groups, ctx.backend)
        return found, None, None, None, None


class Min(torch.autograd.Function):
    """A minimum whose gradient is shared evenly among equal minima on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
        y = minimum(x, dim, keepdim, groups, backend)
        ctx.save_for_backward(x, y)
        ctx.dim, ctx.keepdim, ctx.groups, ctx.backend = dim, keepdim, groups, backend
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, y = ctx.saved_tensors
        if ctx.keepdim:
            y, grad = y.squeeze(ctx.dim), grad.squeeze(ctx.dim)
        found = plans.run("min_backward", (x,), (y,), (grad,), ctx.dim, ctx.groups, ctx.backend)
        return found, None, None, None, None
