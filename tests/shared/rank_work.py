"""What ranks do in tests. Each function is given its rank first."""

import contextlib
import gc
import os
import time
import weakref
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

import kernelzoo.distributed
from kernelzoo.distributed import local, parts


def shard(x: torch.Tensor, sizes: Sequence[int], dim: int, rank: int) -> torch.Tensor:
    """This rank's part, in memory of its own."""
    return torch.split(x, list(sizes), dim)[rank].clone()


def softmax(rank: int, x: torch.Tensor, sizes: Sequence[int], dim: int, backend: str) -> torch.Tensor:
    """Twice on different memory, which must give the same bits: the second time by what the first has kept."""
    own = shard(x, sizes, dim, rank)
    first = kernelzoo.distributed.softmax(own, dim, backend=backend)
    second = kernelzoo.distributed.softmax(own.clone(), dim, backend=backend)
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize]
    assert torch.equal(first.view(whole), second.view(whole)), "another call gives other bits"
    assert first.is_contiguous() and first.shape == own.shape
    return first


@contextlib.contextmanager
def in_parts(count: int) -> Iterator[None]:
    """Shards of a row are cut into so many parts, as they are on a GPU; 0: as they are here. Nothing is kept."""
    before = parts.count_row_parts
    if count:
        parts.count_row_parts = lambda rows, on_gpu: count
    local._kept.clear()
    try:
        yield
    finally:
        parts.count_row_parts = before
        local._kept.clear()


def cut_softmax(rank: int, x: torch.Tensor, sizes: Sequence[int], dim: int, backend: str) -> torch.Tensor:
    with in_parts(7):
        return softmax(rank, x, sizes, dim, backend)


def minimum(
    rank: int, x: torch.Tensor, sizes: Sequence[int], dim: int, keepdim: bool, backend: str
) -> tuple[torch.Tensor, torch.Tensor]:
    own = shard(x, sizes, dim, rank)
    found = [kernelzoo.distributed.min(one, dim, keepdim, backend=backend) for one in (own, own.clone())]
    return found[0], found[1]


def gradients(
    rank: int, x: torch.Tensor, sizes: Sequence[int], dim: int, weights: torch.Tensor, backend: str = "torch"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a softmax, weighted, and of a minimum, on a shard."""
    own = shard(x, sizes, dim, rank).requires_grad_()
    y = kernelzoo.distributed.softmax(own, dim, backend=backend)
    (y * shard(weights, sizes, dim, rank)).sum().backward()
    of_softmax, own.grad = own.grad, None
    (kernelzoo.distributed.min(own, dim, backend=backend) * weights.select(dim, 0)).sum().backward()
    return of_softmax, own.grad


def gradient(
    rank: int, op: str, inputs: Sequence[torch.Tensor], sizes: Sequence[int], dim: int, backend: str, parts_a_row: int
) -> torch.Tensor:
    """A gradient, twice on different memory, with the same bits; shards cut into so many parts, if not 0."""
    shards = 2 if op == "softmax_backward" else 1
    own = [shard(x, sizes, dim, rank) if i < shards else x for i, x in enumerate(inputs)]
    with in_parts(parts_a_row):
        call = getattr(kernelzoo.distributed, op)
        first = call(*own, dim, backend=backend)
        second = call(*[x.clone() for x in own], dim, backend=backend)
    assert torch.equal(first.view(torch.uint8), second.view(torch.uint8)), "another call gives other bits"
    assert first.is_contiguous() and first.shape == own[0].shape
    return first


def on_dtensor(
    rank: int, x: torch.Tensor, placed: Sequence[int | None], shape: Sequence[int], dim: int
) -> tuple[torch.Tensor, str, torch.Tensor, str, torch.Tensor, int]:
    """Softmax, its placements, the minimum, its placements, and the gradient; and the most that a rank received."""
    mesh = init_device_mesh("cpu", tuple(shape))
    placements = [Replicate() if at is None else Shard(at) for at in placed]
    whole = distribute_tensor(x, mesh, placements).requires_grad_()
    most = 0
    gather = kernelzoo.distributed.plans.gather_from_ranks

    def watched(sent: torch.Tensor, group: object) -> torch.Tensor:
        nonlocal most
        most = max(most, sent.numel())
        return gather(sent, group)

    kernelzoo.distributed.plans.gather_from_ranks = watched
    try:
        y = kernelzoo.distributed.softmax(whole, dim, backend="torch")
    finally:
        kernelzoo.distributed.plans.gather_from_ranks = gather
    least = kernelzoo.distributed.min(whole, dim, backend="torch")
    assert isinstance(y, DTensor) and isinstance(least, DTensor)
    (y * y).sum().backward()
    grad = whole.grad.full_tensor()
    return (
        y.detach().full_tensor(), str(y.placements), least.detach().full_tensor(), str(least.placements), grad, most,
    )  # fmt: skip


def fails(rank: int, how: str) -> float:
    """Rank 1 fails, and the others ask for a softmax: how long they waited, where none raises."""
    x = torch.randn(4, 8)
    if rank == 1:
        if how == "ends":
            os._exit(3)
        x = x.int()
    start = time.monotonic()
    try:
        kernelzoo.distributed.softmax(x, backend="torch")
    except Exception as error:
        waited = time.monotonic() - start
        raise type(error)(f"{error} after {waited:.1f} s") from error
    return time.monotonic() - start


def of_rows(rank: int, rows: Sequence[int]) -> torch.Tensor:
    """A softmax of as many rows as are said for each rank."""
    return kernelzoo.distributed.softmax(torch.randn(rows[rank], 8), backend="torch")


def in_groups(rank: int, x: torch.Tensor, sizes: Sequence[int], backend: str) -> list[torch.Tensor]:
    """Softmax and minimum of a shard in groups of several sizes, of one layout."""
    alone = [dist.new_group([other]) for other in range(dist.get_world_size())][rank]
    own = shard(x, sizes, 1, rank)
    found = []
    for group in (alone, None, alone):
        found.append(kernelzoo.distributed.softmax(own, group=group, backend=backend))
        found.append(kernelzoo.distributed.min(own, group=group, backend=backend))
    return found


def as_no_member(rank: int) -> torch.Tensor:
    """A softmax in a group of rank 0, by every rank."""
    return kernelzoo.distributed.softmax(torch.randn(2, 3), group=dist.new_group([0]), backend="torch")


def kept_tensors(rank: int, backend: str) -> list[str]:
    """Of calls whose tensors are gone, what memory is still held."""
    x = torch.randn(4, 64)
    y, least = kernelzoo.distributed.softmax(x, backend=backend), kernelzoo.distributed.min(x, backend=backend)
    held = {"x": weakref.ref(x), "y": weakref.ref(y), "the minimum": weakref.ref(least)}
    del x, y, least
    gc.collect()
    return [name for name, tensor in held.items() if tensor() is not None]
