"""The ways to an operation over an axis that ranks share, which ``bench/distributed.py`` times beside each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from ranked import Here
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import loss_parallel

import kernelzoo.distributed
from kernelzoo.distributed import plans

Inputs: TypeAlias = tuple[torch.Tensor, ...]
Call: TypeAlias = Callable[..., Any]
LANGUAGES = ("triton", "cupy", "numba")
"""The first alone has passes; all have a minimum."""


@dataclass(frozen=True)
class Way:
    """A call of this rank's inputs."""

    call: Call
    ours: bool = False
    same: bool = True
    """It has the operation's result, which is checked; else it is a neighbour that exchanges as much."""


def all_reduced(x: torch.Tensor, op: Any = dist.ReduceOp.SUM) -> torch.Tensor:
    dist.all_reduce(x, op)
    return x


def by_hand(op: str, made: Callable[[Call], Call]) -> Call:
    """Torch's own operations and all_reduces. ``made`` makes each piece between the exchanges: it compiles it, say."""
    most, least = dist.ReduceOp.MAX, dist.ReduceOp.MIN
    top = made(lambda x: x.amax(-1, keepdim=True))
    sums = made(lambda x, top: (x.float() - top).exp().sum(-1, keepdim=True))
    finish = made(lambda x, top, total: ((x.float() - top).exp() / total).to(x.dtype))
    lowest = made(lambda x: x.amin(-1))
    product = made(lambda grad, y: (grad.float() * y.float()).sum(-1, keepdim=True))
    combine = made(lambda grad, y, total: (y.float() * (grad.float() - total)).to(y.dtype))
    count = made(lambda x, y: (x == y.unsqueeze(-1)).sum(-1, dtype=torch.float32))
    spread = made(lambda x, y, share: ((x == y.unsqueeze(-1)) * share.unsqueeze(-1)).to(x.dtype))

    def softmax(x: torch.Tensor) -> Any:
        highest = all_reduced(top(x), most)
        return finish(x, highest, all_reduced(sums(x, highest)))

    def softmax_backward(grad: torch.Tensor, y: torch.Tensor) -> Any:
        return combine(grad, y, all_reduced(product(grad, y)))

    def min_backward(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor) -> Any:
        return spread(x, y, grad.float() / all_reduced(count(x, y)))

    known: dict[str, Call] = {"min": lambda x: all_reduced(lowest(x), least), "softmax": softmax}
    return (known | {"softmax_backward": softmax_backward, "min_backward": min_backward})[op]


def by_dtensor(op: str, mesh: DeviceMesh) -> Call | None:
    """Torch's own on DTensors, which gathers what it can't do on shards."""

    def placed(x: torch.Tensor) -> Any:
        return DTensor.from_local(x, mesh, [Shard(1)], run_check=False)

    def softmax_backward(grad: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.ops.aten._softmax_backward_data(placed(grad), placed(y), -1, y.dtype)

    known: dict[str, Call] = {
        "softmax": lambda x: torch.softmax(placed(x), -1),
        "min": lambda x: placed(x).amin(-1).redistribute(mesh, [Replicate()]),
        "softmax_backward": softmax_backward,
    }
    return known.get(op)


def by_loss_parallel(mesh: DeviceMesh, rows: int, here: Here) -> Call:
    """Torch's cross entropy of logits whose vocabulary is shared: a softmax's exchange, and no softmax written."""
    words = torch.zeros(rows, dtype=torch.int64, device=here.device)

    def loss(x: torch.Tensor) -> Any:
        with loss_parallel(), torch.no_grad():
            logits = DTensor.from_local(x, mesh, [Shard(1)], run_check=False)
            return torch.nn.functional.cross_entropy(logits, words)

    return loss


class SymmetricPairs:
    """What ``gather_from_ranks`` does, by symmetric memory outside of our kernels: a copy, a barrier, a copy per rank.

    It takes two places in turn: a rank that is past the next barrier has read this one. A graph must have an even
    number of calls.
    """

    def __init__(self) -> None:
        self._places: dict[int, tuple[Any, list[list[torch.Tensor]]]] = {}
        self._turn = 0

    def __call__(self, sent: torch.Tensor, group: Any) -> torch.Tensor:
        handle, places = self._places.get(sent.nbytes) or self._made(sent, group)
        self._turn = 1 - self._turn
        place = places[self._turn]
        flat = sent.view(-1).view(torch.uint8)
        place[group.rank()].copy_(flat)
        handle.barrier(channel=0)
        return torch.cat(place).view(sent.dtype).view(group.size(), *sent.shape)

    def barrier(self, sent: torch.Tensor, group: Any) -> None:
        """The barrier alone."""
        handle, _ = self._places.get(sent.nbytes) or self._made(sent, group)
        handle.barrier(channel=0)

    def _made(self, sent: torch.Tensor, group: Any) -> tuple[Any, list[list[torch.Tensor]]]:
        from torch.distributed import _symmetric_memory as symmetric

        size = sent.nbytes
        memory = symmetric.empty((2, size), dtype=torch.uint8, device=sent.device)
        handle = symmetric.rendezvous(memory, group)
        whole = [handle.get_buffer(rank, (2, size), torch.uint8) for rank in range(group.size())]
        made = self._places[size] = handle, [[one[turn] for one in whole] for turn in (0, 1)]
        return made


@contextlib.contextmanager
def exchanging(by: Call) -> Iterator[None]:
    """Pairs go to other ranks by this, in place of the group's collective."""
    module: Any = plans
    before = module.gathered
    module.gathered = by
    try:
        yield
    finally:
        module.gathered = before


def ours(op: str, here: Here) -> dict[str, Way]:
    """Those of kernelzoo.distributed."""
    call, transport = getattr(kernelzoo.distributed, op), here.transport
    found = {}
    names = LANGUAGES if here.cuda else ("torch",)
    for name in names if op == "min" else names[:1]:
        found[f"{name} by {transport}"] = Way(lambda *inputs, name=name: call(*inputs, backend=name), ours=True)
    if op == "softmax" and here.cuda:
        exchange = SymmetricPairs()

        def not_fused(x: torch.Tensor) -> Any:
            with exchanging(exchange):
                return call(x, backend="triton")

        found["triton by symmetric memory"] = Way(lambda x: call(x, backend="triton", exchange="symmetric"), ours=True)
        found["triton, symmetric, not fused"] = Way(not_fused, ours=True)
    return found


def ways(
    op: str, mesh: DeviceMesh, rows: int, here: Here, sizes: Sequence[int], compiled: bool = True
) -> dict[str, Way]:
    """What is timed, by name, of shards of so many columns: torch reduces no empty ones, and its DTensor is cut evenly
    here. ``compiled`` is whether torch by hand is compiled too, which takes longer than all the rest."""
    found = ours(op, here)
    if not all(sizes):
        return found
    found["torch by hand"] = Way(by_hand(op, lambda piece: piece))
    if compiled and here.cuda and len(set(sizes)) == 1:
        found["torch by hand, compiled"] = Way(by_hand(op, lambda piece: torch.compile(piece, dynamic=False)))
    if len(set(sizes)) == 1:
        gathers = by_dtensor(op, mesh)
        if gathers is not None:
            found["torch's DTensor"] = Way(gathers)
        if op == "softmax":
            found["torch's loss_parallel"] = Way(by_loss_parallel(mesh, rows, here), same=False)
    return found
