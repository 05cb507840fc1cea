"""A softmax over a vocabulary that ranks share, and its gradient: nothing is gathered but two numbers a row.

python -m torch.distributed.run --nproc-per-node 2 examples/sharded_softmax.py

It runs on NCCL where each rank has a GPU, else on gloo. Without the launcher it is one rank.
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

import kernelzoo.distributed

for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29533")):
    os.environ.setdefault(name, value)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = "cuda" if torch.cuda.device_count() >= ranks else "cpu"
if device == "cuda":
    torch.cuda.set_device(rank)
dist.init_process_group("nccl" if device == "cuda" else "gloo")

# The same numbers on every rank, of which each keeps its columns. 1003 is odd: shards are of unlike length.
logits = torch.randn(4, 1003, generator=torch.Generator().manual_seed(0)).to(device)
own = logits.tensor_split(ranks, 1)[rank].clone().requires_grad_()

y = kernelzoo.distributed.softmax(own)
torch.testing.assert_close(y, logits.softmax(1).tensor_split(ranks, 1)[rank])
torch.testing.assert_close(kernelzoo.distributed.min(own.detach()), logits.amin(1))

(y * y).sum().backward()
whole = logits.clone().requires_grad_()
(whole.softmax(1) ** 2).sum().backward()
torch.testing.assert_close(own.grad, whole.grad.tensor_split(ranks, 1)[rank], rtol=1e-4, atol=1e-7)

# A DTensor says itself which axis is sharded, and keeps its placement.
sharded = distribute_tensor(logits, init_device_mesh(device, (ranks,)), [Shard(1)])
placed = kernelzoo.distributed.softmax(sharded)
assert placed.placements == (Shard(1),)

if rank == 0:
    print(f"{ranks} ranks on {device}: {y.size(1)} of {logits.size(1)} columns on rank 0; softmax is that of the whole")
dist.destroy_process_group()
