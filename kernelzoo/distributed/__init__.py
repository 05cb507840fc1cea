"""Operations over an axis that several ranks share, on plain torch.distributed.

Each rank calls the same function with its shard of the axis. Shards may differ in length, not in the number of rows.
Ranks exchange only a (max, sum) state or a minimum per row. A DTensor's result has its placements.

>>> import kernelzoo.distributed
>>> kernelzoo.distributed.softmax(x_local, dim=-1, backend="triton")  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch

from kernelzoo.distributed import calls, plans
from kernelzoo.distributed.exchange import as_group_tuple

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["min", "min_backward", "softmax", "softmax_backward"]


def softmax(
    x: torch.Tensor,
    dim: int = -1,
    *,
    group: ProcessGroup | None = None,
    backend: str | None = None,
    exchange: str = "group",
) -> torch.Tensor:
    """Softmax over an axis that a group's ranks share: this rank's shard of the result.

    x: this rank's shard, float16, bfloat16, float32 or float64. Shards may be empty. They may differ only in size along
    ``dim``. If x is a DTensor, its mesh is the group, and the result has its placements. group: None is the default
    group. backend: its name; None takes the best one for x's device. exchange: "group" is two passes with the group's
    collective between them. Triton and torch have these passes; other backends use Triton's on a GPU, torch's
    elsewhere. "symmetric" is one launch whose blocks exchange (max, sum) states by torch's symmetric memory. It needs
    Triton on NVIDIA, and at most 32 bits per element. Before a CUDA graph's capture, all ranks must make a call with as
    many rows. Calls and graphs must not overlap, and must have the same order on all ranks. Returns a contiguous tensor
    of x's shape and dtype, with the same bits on every run. The contract is that of softmax over all shards.
    Differentiable once.

    Errors: those of softmax; PeerError if a rank fails, at the latest after the group's timeout.
    """
    if _is_dtensor(x):
        from kernelzoo.distributed import dtensors

        return dtensors.softmax(x, dim, backend, exchange)
    at, name = calls.validate("softmax", (x,), dim, backend)
    return calls.softmax(x, at, as_group_tuple(group), name, exchange)


def min(
    x: torch.Tensor,
    dim: int = -1,
    keepdim: bool = False,
    *,
    group: ProcessGroup | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """Minimum along an axis that a group's ranks share. Each rank gets :func:`kernelzoo.min` of all shards.

    x: this rank's shard, of any dtype of min; see :func:`softmax` for shards, DTensors, group and backend. Returns x's
    dtype. A DTensor's result is replicated where ``dim`` was sharded. Differentiable once.

    Errors: those of min; EmptyReductionError if the axis is empty on every rank (not in a CUDA graph); PeerError.
    """
    if _is_dtensor(x):
        from kernelzoo.distributed import dtensors

        return dtensors.minimum(x, dim, keepdim, backend)
    at, name = calls.validate("min", (x,), dim, backend, keepdim)
    return calls.minimum(x, at, keepdim, as_group_tuple(group), name)


def softmax_backward(
    grad: torch.Tensor, y: torch.Tensor, dim: int = -1, *, group: ProcessGroup | None = None, backend: str | None = None
) -> torch.Tensor:
    """Gradient of this rank's shard of :func:`softmax`. Ranks exchange one number per row.

    grad, y: this rank's shards of the result's gradient and of the result, of one shape and dtype. See :func:`softmax`
    for group and backend. Returns a contiguous tensor of their shape and dtype. Errors: as softmax.
    """
    at, name = calls.validate("softmax_backward", (grad, y), dim, backend)
    return plans.run("softmax_backward", (grad, y), (), (), at, as_group_tuple(group), name)


def min_backward(
    x: torch.Tensor,
    y: torch.Tensor,
    grad: torch.Tensor,
    dim: int = -1,
    *,
    group: ProcessGroup | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """Gradient of this rank's shard x of :func:`min`. Equal minima on all ranks share it evenly.

    y, grad: the minimum along ``dim`` and its gradient, without that axis, the same on every rank. See :func:`softmax`
    for group and backend. Returns a contiguous tensor of x's shape and dtype. Errors: as min.
    """
    at, name = calls.validate("min_backward", (x, y, grad), dim, backend)
    return plans.run("min_backward", (x,), (y,), (grad,), at, as_group_tuple(group), name)


def _is_dtensor(x: object) -> bool:
    """Whether x is a DTensor. None can exist if the module of DTensor was never imported."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)
