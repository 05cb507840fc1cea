"""The exchange between ranks: each rank receives the numbers of all ranks, in the order of ranks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

import torch
import torch.distributed as dist

from kernelzoo.distributed.local import is_capturing
from kernelzoo.errors import PeerError, ShapeError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Groups: TypeAlias = "tuple[ProcessGroup, ...]"
"""Groups through which to exchange one after the other, each along another axis of a mesh."""


def as_group_tuple(group: object) -> Groups:
    """Return the group as a tuple; None stands for the default group. Raises PeerError if this rank is not in it."""
    if group is None:
        if not dist.is_available() or not dist.is_initialized():
            raise PeerError("there are no ranks yet; call torch.distributed.init_process_group first, or give a group")
        group = dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup):
        raise PeerError(f"a group is one of torch.distributed's that this rank is a member of; got {group!r}")
    return (group,)


def gather_from_ranks(sent: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
    """Return the tensors ``sent`` of all ranks, stacked along a new first axis. Shapes and dtypes must agree.

    Raises PeerError if a rank fails, at the latest after the group's timeout. With NCCL this needs
    ``TORCH_NCCL_BLOCKING_WAIT=1``; otherwise NCCL's watchdog ends the process. On the host, every rank raises
    ShapeError if sizes differ.
    """
    ranks = group.size()
    if ranks == 1:
        return sent.unsqueeze(0)
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # the name from torch 2.13 on
    # NCCL's blocking wait does not cover the caller's own stream, so use another.
    apart = sent.is_cuda and os.environ.get("TORCH_NCCL_BLOCKING_WAIT") == "1" and not is_capturing(sent)

    def bytes_of(own: torch.Tensor) -> torch.Tensor:
        received = own.new_empty((ranks, *own.shape))
        if own.dtype in (torch.float32, torch.float64):
            work = gather(received.flatten(0, 1), own, group=group, async_op=apart)
        else:  # as bytes, since NCCL takes fewer dtypes
            places = received.view(-1).view(torch.uint8), own.view(-1).view(torch.uint8)
            work = gather(*places, group=group, async_op=apart)
        if work is not None:
            work.wait()
        return received

    try:
        if sent.device.type == "cpu":  # unequal sizes would end the process there
            sizes = bytes_of(torch.tensor([sent.numel(), sent.itemsize])).tolist()
        received = bytes_of(sent) if sent.is_cuda or all(size == sizes[0] for size in sizes) else None
    except RuntimeError as error:  # each transport has its own errors
        words = " ".join(str(error).split())
        raise PeerError(
            f"rank {group.rank()} of {ranks} got nothing from the others: {words}; one of them raised, ended, or was "
            "later than the group's timeout"
        ) from error
    if received is None:
        said = ", ".join(f"rank {rank} {count} of {itemsize} bytes" for rank, (count, itemsize) in enumerate(sizes))
        raise ShapeError(f"ranks that share an axis must agree in all others and in dtype; numbers to exchange: {said}")
    return received
