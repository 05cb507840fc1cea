"""Distributed calls on plain tensors and known groups: checks and gradients.

A backward pass sums over the shard, exchanges one number per row, and then computes the gradient.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelzoo import registry
from kernelzoo.calls import backend as backends
from kernelzoo.distributed import plans
from kernelzoo.distributed.exchange import Groups
from kernelzoo.errors import AxisError, UnknownNameError
from kernelzoo.operations import OPERATIONS
from kernelzoo.operations.tensors import check_storage
from kernelzoo.torch_private import count_modes, in_forward_mode, is_jit_traced, make_tensor_guard

_last: dict[str, tuple[Any, ...]] = {}
"""For each operation: the last call's arguments, a test for similar tensors, and the result of :func:`validate`."""

registry.on_change.append(lambda _: _last.clear())


def softmax(x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str = "group") -> torch.Tensor:
    """Return the softmax of a shard. Without groups, each rank has complete rows, and the backend's softmax runs."""
    if not groups:  # whole rows on every rank
        return backends.get(backend).softmax(x, dim)
    follows = torch.is_grad_enabled() and x.requires_grad
    run: Any = _Softmax.apply if follows else plans.softmax
    return run(x, dim, groups, backend, exchange)  # type: ignore[no-any-return]


def minimum(x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
    """Return the minimum of a shard. Without groups, each rank has complete rows, and the backend's min runs."""
    if not groups:
        return backends.get(backend).min(x, dim, keepdim)
    run: Any = _Min.apply if torch.is_grad_enabled() and x.requires_grad else plans.minimum
    return run(x, dim, keepdim, groups, backend)  # type: ignore[no-any-return]


class _Softmax(torch.autograd.Function):
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


class _Min(torch.autograd.Function):
    """A minimum whose gradient is shared evenly among equal minima on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
        y = plans.minimum(x, dim, keepdim, groups, backend)
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


def validate(op: str, inputs: tuple[Any, ...], dim: Any, backend: str | None, keepdim: bool = False) -> tuple[int, str]:
    """Check a call on dense tensors, and return its non-negative axis and the backend's name. A repeated call is fast.

    Raises InputTypeError, ShapeError, AxisError, DeviceError, UnknownNameError, BackendUnavailableError.
    """
    before = _last.get(op)
    # State of torch that the tensors do not show.
    seen = in_forward_mode() or count_modes() or is_jit_traced()
    # The test would end the process for a nested tensor.
    if before is not None and not seen and all(isinstance(x, torch.Tensor) and not x.is_nested for x in inputs):
        axis, keeps, named, same, found = before
        if dim is axis and keepdim is keeps and backend == named and same(*inputs):
            for x, name in zip(inputs, OPERATIONS[op].inputs, strict=True):
                check_storage(x, name)
            return found  # type: ignore[no-any-return]
    operation = OPERATIONS[op]
    if isinstance(dim, tuple | list) or dim is None:
        raise AxisError(f"ranks share one axis, an int; got dim={dim!r}")
    with torch.no_grad():  # gradients are this package's own
        operation.check_tensors(inputs, dim, keepdim)
    if inputs[0].ndim == 0:
        raise AxisError("a tensor without axes has none that ranks could share; got one of shape ()")
    chosen = backends.best(op, inputs[0]) if backend is None else backends.get(backend)
    chosen._check(*inputs)
    if not chosen.variants(op):
        raise UnknownNameError(f"{chosen.name} operation", op, {i.op for i in registry.implementations(chosen.name)})
    found = dim % inputs[0].ndim, chosen.name
    if not seen:
        _last[op] = dim, keepdim, backend, make_tensor_guard(*inputs), found
    return found
