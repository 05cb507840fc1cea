"""Softmax over an axis that ranks share: each passes over its shard, they exchange a pair a row, each finishes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelzoo.distributed import parts
from kernelzoo.distributed.exchange import Groups, gathered, sizes
from kernelzoo.distributed.local import Step, kept
from kernelzoo.operations.arguments import dtype_name
from kernelzoo.operations.signature import wide_name

if TYPE_CHECKING:
    import torch


class Plan:
    """The steps of a rank for shards of one layout in groups of so many ranks, and the memory of their pairs, for one
    call at a time.

    Pairs lie as (parts, 2, rows), so that those of all ranks are one axis of parts, along which they merge in order.
    """

    def __init__(self, x: torch.Tensor, dim: int, ranks: tuple[int, ...], backend: str) -> None:
        import torch

        self._kept_shape = x.shape[:dim] + x.shape[dim + 1 :]
        rows = math.prod(self._kept_shape)
        # By what all ranks know alike: not by n, nor by how the shard lies.
        count = parts.parts_of(rows, x.is_cuda)
        cut = parts.cut_of(x, dim, count, x.is_contiguous())
        wide = getattr(torch, wide_name(dtype_name(x.dtype)))
        self.sent = torch.empty((count, 2, rows), dtype=wide, device=x.device)
        if cut.filled < count:  # the others are empty
            self.sent[cut.filled :, 0], self.sent[cut.filled :, 1] = -math.inf, 0.0
        self._merged = [torch.empty((2, rows), dtype=wide, device=x.device) for _ in ranks]
        self._pairs, self._finish = (parts.Pass(backend, op, x, dim, cut) for op in ("softmax_pairs", "softmax_finish"))
        self._merge = [Step(backend, "softmax_merge") for _ in ranks]

    def pairs(self, x: torch.Tensor) -> None:
        """The first pass: the pair of each part, in ``sent``."""
        self._pairs.numbers((x,), (), (self.sent[:, 0], self.sent[:, 1]))

    def exchange(self, groups: Groups) -> torch.Tensor:
        """The pair of each whole row, as (2, rows), the same bits on each rank."""
        sent = self.sent
        for group, merged, merge in zip(groups, self._merged, self._merge, strict=True):
            received = gathered(sent, group).flatten(0, 1)
            merge((received[:, 0], received[:, 1]), (merged[0], merged[1]), 0)
            sent = merged.unsqueeze(0)
        return sent[0]

    def finish(self, x: torch.Tensor, pair: torch.Tensor, out: torch.Tensor) -> None:
        """The second pass, into ``out``, which is contiguous."""
        self._finish.elements((x,), (pair[0].view(self._kept_shape), pair[1].view(self._kept_shape)), out)


def softmax(x: torch.Tensor, dim: int, groups: Groups, backend: str) -> torch.Tensor:
    """Softmax of a shard, of checked arguments."""
    import torch

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not math.prod(size for d, size in enumerate(x.shape) if d != dim):  # no rows, on any rank
        return out
    plan = kept(Plan, x, dim, sizes(groups), backend)
    if x.numel():
        plan.pairs(x)
    pair = plan.exchange(groups)
    if x.numel():
        plan.finish(x, pair, out)
    return out
