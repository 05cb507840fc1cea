"""The minimum over an axis that ranks share: each reduces its shard, exchanges a number a row, and reduces those."""

from __future__ import annotations

import math

import torch

from kernelzoo.device import on_device_of
from kernelzoo.distributed.exchange import Groups, gathered
from kernelzoo.distributed.local import Step, capturing, kept
from kernelzoo.errors import EmptyReductionError
from kernelzoo.layout import identity, plain


class Plan:
    """A rank's steps for shards of one layout and groups of given sizes, with the memory it sends.

    It sends the minimum of each row, followed by a flag for a shard that is not empty. Only ranks with an empty shard
    read the flags, and none does while a graph is captured.
    """

    def __init__(self, x: torch.Tensor, dim: int, ranks: tuple[int, ...], backend: str) -> None:
        self.dim, self.kept_shape = dim, x.shape[:dim] + x.shape[dim + 1 :]
        self.rows = math.prod(self.kept_shape)
        self._sent = [torch.empty(self.rows + 1, dtype=x.dtype, device=x.device) for _ in ranks]
        if x.size(dim):
            self._sent[0].fill_(1)  # one launch in a graph; all but the last are overwritten
        else:
            self._sent[0].fill_(identity(plain(x).dtype))
            self._sent[0][-1:].fill_(0)  # assigning one element copies from the host, which no capture allows
        self._local = Step(backend, "min", x)
        self._reduce = [Step(backend, "min", x) for _ in ranks]

    def run(self, x: torch.Tensor, groups: Groups, out: torch.Tensor) -> None:
        """Write the minimum of each whole row, with the same bits on each rank. Raises EmptyReductionError."""
        sent = self._sent[0]
        if x.numel() and not self._local.moved(x.data_ptr(), sent.data_ptr()):
            self._local((x,), (sent[:-1].view(self.kept_shape),), self.dim)
        for i, (group, reduce) in enumerate(zip(groups, self._reduce, strict=True)):
            received = gathered(sent, group)
            last = i + 1 == len(groups)
            into = out if last else self._sent[i + 1]
            if not reduce.moved(received.data_ptr(), into.data_ptr()):
                reduce((received[:, :-1],), (into.view(-1)[: self.rows],), 0)
            if not last:
                sent = self._sent[i + 1]
                sent[-1] = received[:, -1].amax()
            elif not x.size(self.dim) and not capturing(x) and not received[:, -1].any():
                raise EmptyReductionError(
                    "min of nothing: the reduced axis is empty on every rank; it needs an element"
                )


def minimum(x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
    """The minimum along the axis of all ranks' shards, from checked arguments."""
    kept_shape = [1 if d == dim else size for d, size in enumerate(x.shape) if keepdim or d != dim]
    out = torch.empty(kept_shape, dtype=x.dtype, device=x.device)
    if out.numel():
        ranks = tuple(group.size() for group in groups)
        with on_device_of(x):
            kept(Plan, x, dim, ranks, backend).run(x, groups, out)
    return out
