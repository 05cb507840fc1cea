"""Softmax of a shard by either exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelzoo.distributed import plans, symmetric
from kernelzoo.distributed.exchange import Groups
from kernelzoo.errors import UnknownNameError

if TYPE_CHECKING:
    import torch

EXCHANGES = ("group", "symmetric")
"""How (max, sum) states reach other ranks: by the group's collective, or by symmetric memory in one launch."""


def softmax(x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str) -> torch.Tensor:
    """Softmax of a shard, from checked arguments. Raises UnknownNameError for an unknown exchange."""
    if exchange not in EXCHANGES:
        raise UnknownNameError("exchange", exchange, EXCHANGES)
    if exchange == "symmetric" and len(groups) == 1 and groups[0].size() > 1:
        return symmetric.softmax(x, dim, groups[0], backend)
    return plans.run("softmax", (x,), (), (), dim, groups, backend)
