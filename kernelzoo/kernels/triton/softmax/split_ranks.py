"""A softmax whose rows several ranks share, in one launch: shards stay on chip while ranks exchange pairs.

It is no form by itself, since it needs the memory of other ranks: ``kernelzoo.distributed`` binds it.
"""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.kernels.triton.softmax.ranks_kernel import ranks_kernel
from kernelzoo.kernels.triton.softmax.split import split_plan
from kernelzoo.launch import Launch
from kernelzoo.layout import power_of_two

ID = "triton/softmax/split_ranks"


def split_ranks(
    x: torch.Tensor,
    out: torch.Tensor,
    words: torch.Tensor,
    peers: torch.Tensor,
    state: torch.Tensor,
    late: torch.Tensor,
    rank: int,
    ranks: int,
    limit: int,
) -> Launch:
    """Bind a shard, in canonical form.

    words: (2, rows, ranks) int64, all bits set before the first launch, at the addresses ``peers`` of every rank.
    state: two int64, 0: launches on the words, and whether one failed. late: an int64 that the host can read. limit:
    nanoseconds.
    Raises UnsupportedProblemError.
    """
    if not device_of(x).is_nvidia or x.itemsize > 4:
        raise UnsupportedProblemError(ID, "it takes up to 32 bits an element, on NVIDIA's devices")
    plan, args = split_plan(x, out, ID)
    options = {"maxnreg": plan.registers, "launch_cooperative_grid": True}
    between = (words, peers, state[:1], state[1:], late, limit, rank, ranks, power_of_two(ranks))
    return bound(ID, x, ranks_kernel, plan.programs, (*args, *between, *plan.sizes), plan.warps, **options)
