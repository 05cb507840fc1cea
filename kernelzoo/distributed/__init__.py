"""Operations over an axis that several ranks share, on plain torch.distributed.

Each rank has a shard of the axis, of any length, and calls the same function with as many rows. Only a (max, sum) state
or a minimum a row is exchanged. A DTensor knows its shards, and the result keeps its placements.

>>> import kernelzoo.distributed
>>> kernelzoo.distributed.softmax(x_local, dim=-1, backend="triton")  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch

from kernelzoo.distributed import calls, plans
from kernelzoo.distributed.exchange import groups_of

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
    """Softmax over an axis that a group's ranks share: this rank's part of :func:`kernelzoo.softmax` of the whole.

    x: this rank's shard, float16, bfloat16, float32 or float64. Shards may differ along ``dim``, and may be empty; all
    else must agree. Or a DTensor: the result has its placements, and ``group`` is its mesh's. group: None is the
    default group. backend: its name; None takes the best one for x's device. exchange: "group" is the group's
    collective between two passes. Triton and torch have these passes; other backends use Triton's on a GPU, torch's
    elsewhere. "symmetric" is one launch whose blocks exchange (max, sum) states by torch's symmetric memory. It needs
    Triton on NVIDIA, and at most 32 bits an element. All ranks make a first call with as many rows outside of a graph.
    Calls and graphs must not overlap, and have one order on all ranks. Returns a contiguous tensor of x's shape and
    dtype. The contract is that of softmax over all shards, with the same bits on every run. Differentiable once.

    Errors: those of softmax; PeerError where a rank fails, after the group's timeout at the latest.
    """
    if _is_dtensor(x):
        from kernelzoo.distributed import dtensors

        return dtensors.softmax(x, dim, backend, exchange)
    at, name = calls.checked("softmax", (x,), dim, backend)
    return calls.softmax(x, at, groups_of(group), name, exchange)


def min(
    x: torch.Tensor,
    dim: int = -1,
    keepdim: bool = False,
    *,
    group: ProcessGroup | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """Minimum along an axis that the ranks of a group share: that of :func:`kernelzoo.min` of the whole, on every rank.

    x: this rank's shard, of any dtype of min; see :func:`softmax` for shards, DTensors, group and backend. Returns x's
    dtype. A DTensor's result is replicated where ``dim`` was sharded. Differentiable once.

    Errors: those of min, EmptyReductionError where the axis is empty on every rank (not in a CUDA graph); PeerError.
    """
    if _is_dtensor(x):
        from kernelzoo.distributed import dtensors

        return dtensors.minimum(x, dim, keepdim, backend)
    at, name = calls.checked("min", (x,), dim, backend, keepdim)
    return calls.minimum(x, at, keepdim, groups_of(group), name)


def softmax_backward(
    grad: torch.Tensor,
    y: torch.Tensor,
    dim: int = -1,
    *,
    group: ProcessGroup | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """Gradient of a shard of :func:`softmax`, from those of its result y: one number a row is exchanged.

    grad, y: this rank's shards, of one shape and dtype; see :func:`softmax` for group and backend. Returns a contiguous
    tensor of their shape and dtype. Errors: as softmax.
    """
    at, name = calls.checked("softmax_backward", (grad, y), dim, backend)
    return plans.run("softmax_backward", (grad, y), (), (), at, groups_of(group), name)


def min_backward(
    x: torch.Tensor,
    y: torch.Tensor,
    grad: torch.Tensor,
    dim: int = -1,
    *,
    group: ProcessGroup | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """Gradient of a shard x of :func:`min`, shared evenly among equal minima on all ranks.

    y, grad: the minimum along ``dim`` and its gradient, without that axis, the same on every rank; see :func:`softmax`
    for group and backend. Returns a contiguous tensor of x's shape and dtype. Errors: as min.
    """
    at, name = calls.checked("min_backward", (x, y, grad), dim, backend)
    return plans.run("min_backward", (x,), (y,), (grad,), at, groups_of(group), name)


def _is_dtensor(x: object) -> bool:
    """Whether x is a DTensor. If its module is not imported, it is none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)
