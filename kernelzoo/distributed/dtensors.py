"""Operations on DTensors. Their placements determine the shards, the ranks, and the result's placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from kernelzoo.distributed import calls
from kernelzoo.distributed.exchange import Groups
from kernelzoo.errors import InputTypeError
from kernelzoo.operations.arguments import axes_of


def softmax(x: Any, dim: int, backend: str | None, exchange: str) -> DTensor:
    """Return the softmax of a DTensor, with the same placements."""
    x, groups, (at,) = _add_up_partials(x, dim)
    local = x.to_local()
    _, name = calls.validate("softmax", (local.detach(),), at, backend)
    result = calls.softmax(local, at, groups, name, exchange)
    return _make_dtensor(x, result, x.placements, tuple(x.shape))


def minimum(x: Any, dim: int, keepdim: bool, backend: str | None) -> DTensor:
    """Return the minimum of a DTensor: replicated where the axis was sharded, else with the same placements."""
    x, groups, (at,) = _add_up_partials(x, dim)
    local = x.to_local()
    _, name = calls.validate("min", (local.detach(),), at, backend, keepdim)
    result = calls.minimum(local, at, keepdim, groups, name)
    shape = tuple(1 if d == at else size for d, size in enumerate(x.shape) if keepdim or d != at)
    placements = []
    for placed in x.placements:
        if isinstance(placed, Shard):
            gone = placed.dim == at
            placed = Replicate() if gone else Shard(placed.dim - (placed.dim > at and not keepdim))
        placements.append(placed)
    return _make_dtensor(x, result, tuple(placements), shape)


def _add_up_partials(x: DTensor, dim: int) -> tuple[DTensor, Groups, tuple[int, ...]]:
    """Return x with its partial sums added up, the groups that share the axis ``dim``, and (dim,)."""
    if any(isinstance(placed, Partial) for placed in x.placements):
        whole = [Replicate() if isinstance(placed, Partial) else placed for placed in x.placements]
        x = x.redistribute(placements=whole)
    for placed in x.placements:
        if type(placed) not in (Shard, Replicate):
            raise InputTypeError(f"a DTensor here is placed by Shard, Replicate and Partial; got {placed}")
    at = axes_of(dim, x.ndim)
    mesh = x.device_mesh
    sharing = [i for i, placed in enumerate(x.placements) if isinstance(placed, Shard) and placed.dim == at[0]]
    # If no mesh axis shares it, each rank has complete rows, and exchanges nothing.
    return x, tuple(mesh.get_group(i) for i in reversed(sharing)), at


def _make_dtensor(x: DTensor, local: torch.Tensor, placements: Sequence[Placement], shape: tuple[int, ...]) -> DTensor:
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(local, x.device_mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)
