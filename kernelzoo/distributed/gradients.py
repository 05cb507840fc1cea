"""Gradients over an axis that ranks share: each sums over its shard, exchanges a number a row, and finishes."""

from __future__ import annotations

from typing import Any

import torch

from kernelzoo.distributed import plans
from kernelzoo.distributed.exchange import Groups
from kernelzoo.distributed.minimum import minimum
from kernelzoo.distributed.shards import softmax
<<<<<<< HEAD
from kernelzoo.operations.tensors import check_storage

PASSES = {
    "softmax_backward": ("vecdot", "softmax_backward_finish"),
    "min_backward": ("min_backward_counts", "min_backward_finish"),
}
"""For each gradient, the operation that gives a number a row, and the one that finishes with its sum."""


class Plan:
    """A rank's steps for shards of one layout and groups of given sizes, with the memory of their sums.

    It serves one call at a time. Sums are stored as (parts, rows), so that those of all ranks are one axis, added in
    order.
    """

    def __init__(self, x: torch.Tensor, dim: int, ranks: tuple[int, ...], backend: str, op: str, dense: bool) -> None:
        self._kept_shape = x.shape[:dim] + x.shape[dim + 1 :]
        rows = math.prod(self._kept_shape)
        count = parts.parts_of(rows, x.is_cuda)  # not from n, so that all ranks agree
        cut = parts.cut_of(x, dim, count, dense)
        wide = torch.promote_types(x.dtype, torch.float32)
        self._sent = torch.empty((count, rows), dtype=wide, device=x.device)
        self._sent[cut.filled :] = 0.0  # empty parts
        self._merged = [torch.empty(rows, dtype=wide, device=x.device) for _ in ranks]
        self._one = torch.ones((1, 1), dtype=wide, device=x.device)
        self._first, self._last = (parts.Pass(backend, one, x, dim, cut) for one in PASSES[op])
        self._merge = [Step(backend, "vecdot", x) for _ in ranks]

    def run(
        self,
        shards: Sequence[torch.Tensor],
        asked: Sequence[torch.Tensor],
        also: Sequence[torch.Tensor],
        groups: Groups,
    ) -> torch.Tensor:
        """The gradient of this rank's shard. asked: tensors of one number a row for both passes. also: those for the
        second only."""
        x = shards[0]
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            self._first.numbers(shards, asked, (self._sent,))
        sent = self._sent
        for group, merged, merge in zip(groups, self._merged, self._merge, strict=True):
            received = gathered(sent, group)
            if not merge.moved(received.data_ptr(), self._one.data_ptr(), merged.data_ptr()):
                of_all = received.flatten(0, 1)
                merge((of_all, self._one.expand_as(of_all)), (merged,), 0)
            sent = merged.unsqueeze(0)
        if x.numel():
            self._last.elements(shards, (*asked, *also, sent[0].view(self._kept_shape)), out)
        return out


def _gradient(
    op: str,
    shards: Sequence[torch.Tensor],
    asked: Sequence[torch.Tensor],
    also: Sequence[torch.Tensor],
    dim: int,
    groups: Groups,
    backend: str,
) -> torch.Tensor:
    x, *beside = *shards, *asked, *also
    for one in (x, *beside):  # autograd saved some, which may have lost their memory
        check_storage(one, f"a tensor that {op} takes")
    if not math.prod(size for d, size in enumerate(x.shape) if d != dim):  # no rows on any rank
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dense = all(one.is_contiguous() for one in (x, *beside))
    with on_device_of(x):
        plan = kept(Plan, x, dim, sizes(groups), backend, op, dense, beside=beside)
        return plan.run(shards, asked, also, groups)
=======
>>>>>>> w-cli


def softmax_backward(grad: torch.Tensor, y: torch.Tensor, dim: int, groups: Groups, backend: str) -> torch.Tensor:
    """Gradient of a shard of a softmax, from checked arguments."""
    return plans.run("softmax_backward", (grad, y), (), (), dim, groups, backend)


def min_backward(
    x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, dim: int, groups: Groups, backend: str
) -> torch.Tensor:
    """Gradient of a shard of a minimum, from checked arguments; y and grad lack the axis."""
    return plans.run("min_backward", (x,), (y,), (grad,), dim, groups, backend)


class Softmax(torch.autograd.Function):
    """A softmax whose gradient exchanges one number a row."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str) -> torch.Tensor:
        y = softmax(x, dim, groups, backend, exchange)
        ctx.save_for_backward(y)
        ctx.dim, ctx.groups, ctx.backend = dim, groups, backend
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        (y,) = ctx.saved_tensors
        return softmax_backward(grad, y, ctx.dim, ctx.groups, ctx.backend), None, None, None, None


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
        return min_backward(x, y, grad, ctx.dim, ctx.groups, ctx.backend), None, None, None, None
