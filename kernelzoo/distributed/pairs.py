"""Softmax over an axis that ranks share: each rank makes (max, sum) states, exchanges them, and finishes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelzoo.device import on_device_of
from kernelzoo.distributed import parts
from kernelzoo.distributed.exchange import Groups, gathered, sizes
from kernelzoo.distributed.local import Step, kept
from kernelzoo.layout import dtype_name
from kernelzoo.operations.signature import wide_name

if TYPE_CHECKING:
    import torch


class Plan:
    """A rank's steps for shards of one layout and groups of given sizes, with the memory of their states.

    It serves one call at a time. States are stored as (parts, 2, rows), so that those of all ranks are one axis, merged
    in order.
    """

    def __init__(self, x: torch.Tensor, dim: int, ranks: tuple[int, ...], backend: str) -> None:
        import torch

        self._kept_shape = x.shape[:dim] + x.shape[dim + 1 :]
        rows = math.prod(self._kept_shape)
        # Not from n or the shard's layout, so that all ranks agree.
        count = parts.parts_of(rows, x.is_cuda)
        cut = parts.cut_of(x, dim, count, x.is_contiguous())
        wide = getattr(torch, wide_name(dtype_name(x.dtype)))
        self.sent = torch.empty((count, 2, rows), dtype=wide, device=x.device)
        if cut.filled < count:  # the others are empty
            self.sent[cut.filled :, 0], self.sent[cut.filled :, 1] = -math.inf, 0.0
        self._halves = self.sent[:, 0], self.sent[:, 1]
        self._merged = [torch.empty((2, rows), dtype=wide, device=x.device) for _ in ranks]
        self._pairs, self._finish = (parts.Pass(backend, op, x, dim, cut) for op in ("softmax_pairs", "softmax_finish"))
        self._merge = [Step(backend, "softmax_merge", x) for _ in ranks]
        self._found = [tuple(number.view(self._kept_shape) for number in merged) for merged in self._merged][-1]

    def pairs(self, x: torch.Tensor) -> None:
        """The first pass: the (max, sum) state of each part, in ``sent``."""
        self._pairs.numbers((x,), (), self._halves)

    def exchange(self, groups: Groups) -> None:
        """Exchange and merge the states to those of whole rows, with the same bits on each rank."""
        sent, further = self.sent, self._merged[0].nbytes // 2
        for group, merged, merge in zip(groups, self._merged, self._merge, strict=True):
            received = gathered(sent, group)
            place, into = received.data_ptr(), merged.data_ptr()
            if not merge.moved(place, place + further, into, into + further):
                parts_of_all = received.flatten(0, 1)
                merge((parts_of_all[:, 0], parts_of_all[:, 1]), (merged[0], merged[1]), 0)
            sent = merged.unsqueeze(0)

    def finish(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """The second pass, into the contiguous ``out``."""
        self._finish.elements((x,), self._found, out)


def softmax(x: torch.Tensor, dim: int, groups: Groups, backend: str) -> torch.Tensor:
    """Softmax of a shard, from checked arguments."""
    import torch

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not math.prod(size for d, size in enumerate(x.shape) if d != dim):  # no rows on any rank
        return out
    with on_device_of(x):
        plan = kept(Plan, x, dim, sizes(groups), backend)
        if x.numel():
            plan.pairs(x)
        plan.exchange(groups)
        if x.numel():
            plan.finish(x, out)
    return out
