"""Operations over an axis that ranks share. Each rank finds a few numbers per row, exchanges them, and finishes.

Finishing merges the numbers and computes this rank's result. A minimum only reduces the exchanged numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from kernelzoo.device import on_device_of
from kernelzoo.distributed import parts, symmetric
from kernelzoo.distributed.exchange import Groups, gather_from_ranks
from kernelzoo.distributed.local import BoundOperation, cached_by_layout, is_capturing
from kernelzoo.errors import EmptyReductionError, UnknownNameError
from kernelzoo.layout import bool_as_uint8, min_identity
from kernelzoo.operations.tensors import check_storage

EXCHANGES = ("group", "symmetric")
"""The ways to exchange (max, sum) states: by the group's collective, or by symmetric memory in one launch."""

PASSES = {
    "softmax": ("softmax_pairs", "softmax_merge", "softmax_finish", (-math.inf, 0.0)),
    "softmax_backward": ("vecdot", "vecdot", "softmax_backward_finish", (0.0,)),
    "min_backward": ("min_backward_counts", "vecdot", "min_backward_finish", (0.0,)),
}
"""For each operation: three passes, and the numbers of an empty part. The first pass computes numbers per part and
row, the second merges them, and the third computes the result. A vecdot with ones adds the parts' numbers in order."""


class Plan:
    """A rank's launches for one shard layout and one list of group sizes, with memory for the exchanged statistics.

    It serves one call at a time. Statistics of rows, such as their maxima and sums, have the shape (parts, statistics,
    rows). So the gathered parts of all ranks form one axis, along which they are merged in order."""

    def __init__(self, x: torch.Tensor, dim: int, ranks: tuple[int, ...], backend: str, op: str, dense: bool) -> None:
        first, merge, last, empty = PASSES[op]
        self._kept_shape = x.shape[:dim] + x.shape[dim + 1 :]
        rows = math.prod(self._kept_shape)
        # The count does not depend on n or the shard's layout, so that all ranks agree.
        count = parts.count_row_parts(rows, x.is_cuda)
        lined = dense and math.prod(x.shape[dim + 1 :]) == 1  # a row's elements are contiguous
        cut = parts.split_elements(x.size(dim), count if lined else 1)
        wide = torch.promote_types(x.dtype, torch.float32)
        self._sent = torch.empty((count, len(empty), rows), dtype=wide, device=x.device)
        for number, value in enumerate(empty):
            self._sent[cut.nonempty_parts :, number] = value
        self._parts = self._sent.unbind(1)
        self._merged = [torch.empty((len(empty), rows), dtype=wide, device=x.device) for _ in ranks]
        self._ones = [torch.ones((1, 1), dtype=wide, device=x.device)] * (merge == "vecdot")
        self._first, self._last = (parts.PartwiseOperation(backend, one, x, dim, cut) for one in (first, last))
        self._merge = [BoundOperation(backend, merge, x) for _ in ranks]
        self._further = [number * rows * wide.itemsize for number in range(len(empty))]
        self._found = [number.view(self._kept_shape) for merged in self._merged[-1:] for number in merged]

    def run(
        self,
        shards: Sequence[torch.Tensor],
        row_inputs: Sequence[torch.Tensor],
        last_pass_inputs: Sequence[torch.Tensor],
        groups: Groups,
        out: torch.Tensor,
    ) -> None:
        """Write this rank's part of the result; see :func:`run`."""
        if shards[0].numel():
            self._first.compute_part_statistics(shards, row_inputs, self._parts)
        sent = self._sent
        for group, merged, merge in zip(groups, self._merged, self._merge, strict=True):
            received = gather_from_ranks(sent, group)
            place, into, ones = received.data_ptr(), merged.data_ptr(), [one.data_ptr() for one in self._ones]
            if not merge.run_on_addresses(
                *(place + step for step in self._further), *ones, *(into + step for step in self._further)
            ):
                of_all = received.flatten(0, 1).unbind(1)
                merge((*of_all, *(one.expand_as(of_all[0]) for one in self._ones)), merged.unbind(0), 0)
            sent = merged.unsqueeze(0)
        if shards[0].numel():
            self._last.compute_result(shards, (*row_inputs, *last_pass_inputs, *self._found), out)


def softmax(x: torch.Tensor, dim: int, groups: Groups, backend: str, exchange: str) -> torch.Tensor:
    """Return the softmax of a shard, from checked arguments. Raises UnknownNameError for an unknown exchange."""
    if exchange not in EXCHANGES:
        raise UnknownNameError("exchange", exchange, EXCHANGES)
    if exchange == "symmetric" and len(groups) == 1 and groups[0].size() > 1:
        return symmetric.softmax(x, dim, groups[0], backend)
    return run("softmax", (x,), (), (), dim, groups, backend)


def run(
    op: str,
    shards: Sequence[torch.Tensor],
    row_inputs: Sequence[torch.Tensor],
    last_pass_inputs: Sequence[torch.Tensor],
    dim: int,
    groups: Groups,
    backend: str,
) -> torch.Tensor:
    """Return an operation's result for this rank's shard, with the same bits on each run, from checked arguments.

    row_inputs: tensors of one number per row, for the first and last pass. last_pass_inputs: for the last pass only.
    """
    x, *beside = *shards, *row_inputs, *last_pass_inputs
    for one in (x, *beside):  # autograd saved some, which may have lost their memory
        check_storage(one, f"a tensor that {op} takes")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if math.prod(size for d, size in enumerate(x.shape) if d != dim):  # else no rank has rows
        dense = all(one.is_contiguous() for one in (x, *beside))
        ranks = tuple(group.size() for group in groups)
        with on_device_of(x):
            plan = cached_by_layout(Plan, x, dim, ranks, backend, op, dense, beside=beside)
            plan.run(shards, row_inputs, last_pass_inputs, groups, out)
    return out


class MinimumPlan:
    """A minimum's launches for one shard layout and one list of group sizes, with the memory that this rank sends.

    A rank sends the minimum of each row, then a flag that its shard is not empty. Only ranks with an empty shard read
    the flags. While a CUDA graph is captured, no rank reads them."""

    def __init__(self, x: torch.Tensor, dim: int, ranks: tuple[int, ...], backend: str) -> None:
        self.dim, self.kept_shape = dim, x.shape[:dim] + x.shape[dim + 1 :]
        self.rows = math.prod(self.kept_shape)
        self._sent = [torch.empty(self.rows + 1, dtype=x.dtype, device=x.device) for _ in ranks]
        if x.size(dim):
            self._sent[0].fill_(1)  # sets the flag, in one launch; the minima are overwritten
        else:
            self._sent[0].fill_(min_identity(bool_as_uint8(x).dtype))
            self._sent[0][-1:].fill_(0)  # assigning one element copies from the host, which no capture allows
        self._local = BoundOperation(backend, "min", x)
        self._reduce = [BoundOperation(backend, "min", x) for _ in ranks]

    def run(self, x: torch.Tensor, groups: Groups, out: torch.Tensor) -> None:
        """Write each row's minimum over all ranks, with the same bits on each rank. Raises EmptyReductionError."""
        sent = self._sent[0]
        if x.numel() and not self._local.run_on_addresses(x.data_ptr(), sent.data_ptr()):
            self._local((x,), (sent[:-1].view(self.kept_shape),), self.dim)
        for i, (group, reduce) in enumerate(zip(groups, self._reduce, strict=True)):
            received = gather_from_ranks(sent, group)
            last = i + 1 == len(groups)
            into = out if last else self._sent[i + 1]
            if not reduce.run_on_addresses(received.data_ptr(), into.data_ptr()):
                reduce((received[:, :-1],), (into.view(-1)[: self.rows],), 0)
            if not last:
                sent = self._sent[i + 1]
                sent[-1] = received[:, -1].amax()
            elif not x.size(self.dim) and not is_capturing(x) and not received[:, -1].any():
                raise EmptyReductionError(
                    "min of nothing: the reduced axis is empty on every rank; it needs an element"
                )


def minimum(x: torch.Tensor, dim: int, keepdim: bool, groups: Groups, backend: str) -> torch.Tensor:
    """Return the minimum along the axis over all ranks' shards, from checked arguments."""
    kept_shape = [1 if d == dim else size for d, size in enumerate(x.shape) if keepdim or d != dim]
    out = torch.empty(kept_shape, dtype=x.dtype, device=x.device)
    if out.numel():
        ranks = tuple(group.size() for group in groups)
        with on_device_of(x):
            cached_by_layout(MinimumPlan, x, dim, ranks, backend).run(x, groups, out)
    return out
