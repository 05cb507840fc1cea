"""Calls of the operations, on dense tensors and over groups that are known: checked, followed for a gradient, run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelzoo import backend as backends
from kernelzoo.distributed.exchange import Groups
from kernelzoo.errors import AxisError
from kernelzoo.operations import OPERATIONS

if TYPE_CHECKING:
    import torch


def softmax(x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str = "group") -> torch.Tensor:
    """Softmax of a shard whose axis groups share, of none the backend's own."""
    import torch

    if not groups:  # whole rows on every rank
        return backends.get(backend).softmax(x, dim)  # type: ignore[no-any-return]
    if torch.is_grad_enabled() and x.requires_grad:
        from kernelzoo.distributed import gradients

        return gradients.Softmax.apply(x, dim, groups, backend, exchange)  # type: ignore[no-any-return, no-untyped-call]
    from kernelzoo.distributed.shards import softmax as run

    return run(x, dim, groups, backend, exchange)


def minimum(x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
    """Minimum of a shard whose axis groups share, likewise."""
    import torch

    if not groups:
        return backends.get(backend).min(x, dim, keepdim)  # type: ignore[no-any-return]
    if torch.is_grad_enabled() and x.requires_grad:
        from kernelzoo.distributed import gradients

        return gradients.Min.apply(x, dim, keepdim, groups, backend)  # type: ignore[no-any-return, no-untyped-call]
    from kernelzoo.distributed.minimum import minimum as run

    return run(x, dim, keepdim, groups, backend)


def checked(op: str, inputs: tuple[Any, ...], dim: Any, backend: str | None, keepdim: bool = False) -> tuple[int, str]:
    """The axis, non-negative, and the backend's name, of a call on dense tensors.

    Raises InputTypeError, ShapeError, AxisError, DeviceError, UnknownNameError, BackendUnavailableError.
    """
    import torch

    operation = OPERATIONS[op]
    if isinstance(dim, tuple | list) or dim is None:
        raise AxisError(f"ranks share one axis, an int; got dim={dim!r}")
    with torch.no_grad():  # gradients are this package's own
        operation.check_tensors(inputs, dim, keepdim)
    if inputs[0].ndim == 0:
        raise AxisError("a tensor without axes has none that ranks could share; got one of shape ()")
    chosen = backends.best(op, inputs[0]) if backend is None else backends.get(backend)
    chosen._check(*inputs)
    return dim % inputs[0].ndim, chosen.name
