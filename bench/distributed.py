"""Softmax over a vocabulary that GPUs share: ``bench/distributed.py -o FILE.json``, a process to each GPU.

python -m torch.distributed.run --nproc-per-node 2 bench/distributed.py -o FILE.json

Each problem is cut evenly along its rows. Beside ours, by NCCL and by symmetric memory, run torch's own on a DTensor,
torch by hand with two all_reduces, the same compiled, torch's loss_parallel (a cross entropy), and ours on one GPU that
has all of it. What is a softmax must be right on all shards before it is timed, and ours on special values too.

The clock is each device's, between two events around some calls on as many inputs as no cache holds, eager or in a CUDA
graph; a sample is that of the slower rank. The limit is a rank's own: a launch, and the bytes of its shard at the speed
of a copy.
"""

import argparse
import datetime
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import loss_parallel

import kernelzoo
import kernelzoo.distributed
from kernelzoo import measure, operations
from kernelzoo.errors import KernelZooError
from kernelzoo.files import write_whole
from kernelzoo.measure.ceilings import ceilings

FORMAT = "kernelzoo-distributed/1"
SHAPES = ((16, 262144), (256, 128256), (2048, 128256), (4096, 32768))
DTYPES = ("float32", "bfloat16")
CACHED = 2**28
"""Bytes that the inputs of a sample have at the least: several times a cache."""

Way = Callable[[torch.Tensor], Any]


def by_hand(x: torch.Tensor) -> torch.Tensor:
    """Torch's own operations, and two all_reduces."""
    top = x.amax(-1, keepdim=True)
    dist.all_reduce(top, dist.ReduceOp.MAX)
    terms = (x.float() - top).exp_()
    total = terms.sum(-1, keepdim=True)
    dist.all_reduce(total)
    return (terms / total).to(x.dtype)


def compiled() -> Way:
    """The same, each piece between the exchanges compiled."""
    top = torch.compile(lambda x: x.amax(-1, keepdim=True))
    sums = torch.compile(lambda x, top: (x.float() - top).exp().sum(-1, keepdim=True))
    finish = torch.compile(lambda x, top, total: ((x.float() - top).exp() / total).to(x.dtype))

    def run(x: torch.Tensor) -> torch.Tensor:
        most = top(x)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        total = sums(x, most)
        dist.all_reduce(total)
        return finish(x, most, total)  # type: ignore[no-any-return]

    return run


def ways(mesh: DeviceMesh, rows: int) -> dict[str, Way]:
    """What is timed, by name."""
    softmax = kernelzoo.distributed.softmax
    found: dict[str, Way] = {
        f"{name} by nccl": lambda x, name=name: softmax(x, backend=name)  # type: ignore[misc]
        for name in ("triton", "cupy", "numba")
    }
    found["triton by symmetric memory"] = lambda x: softmax(x, backend="triton", exchange="symmetric")
    words = torch.zeros(rows, dtype=torch.int64, device="cuda")

    def placed(x: torch.Tensor) -> DTensor:
        return DTensor.from_local(x, mesh, [Shard(1)], run_check=False)

    def loss(x: torch.Tensor) -> Any:
        with loss_parallel(), torch.no_grad():
            return torch.nn.functional.cross_entropy(placed(x), words)

    found["DTensor's softmax"] = lambda x: torch.softmax(placed(x), -1)
    found["torch by hand"] = by_hand
    found["torch by hand, compiled"] = compiled()
    found["torch's loss_parallel"] = loss
    return found


def whole_of(shard: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts, 1)


def check(name: str, way: Way, x: torch.Tensor) -> None:
    """Raise ContractError unless the way's softmax is right, ours on special values too, and the same bits twice."""
    tries = [x]
    if " by " in name and not name.startswith("torch"):
        odd = x[:8].clone()
        odd[0, 0], odd[1, -1] = math.nan, math.inf
        odd[3], odd[4] = 3e38, -3e38
        if dist.get_rank() == 0:
            odd[5] = -math.inf
            odd[0, 0] = 0
        odd[6] = -math.inf
        tries.append(odd)
    for one in tries:
        y = way(one)
        own = y.redistribute(y.device_mesh, [Shard(1)]).to_local() if isinstance(y, DTensor) else y
        operations.OPERATIONS["softmax"].assert_close(whole_of(own.contiguous()), whole_of(one))
        again = way(one)
        again = again.redistribute(again.device_mesh, [Shard(1)]).to_local() if isinstance(again, DTensor) else again
        assert torch.equal(own.view(torch.uint8), again.view(torch.uint8)), f"{name}: other bits in another call"


def calls(way: Way, inputs: list[torch.Tensor], how: str) -> Callable[[], None]:
    """A sample: one call of each input."""

    def eager() -> None:
        for x in inputs:
            way(x)

    if how == "eager":
        return eager
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        eager()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        eager()
    return graph.replay


def slower(seconds: float) -> float:
    """The largest of all ranks."""
    found = torch.tensor([seconds], dtype=torch.float64, device="cuda")
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def agreed(error: str) -> str:
    """What any rank has to say against a way; the first one's."""
    said: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(said, error)
    return next(filter(None, said), "")


def race(steps: dict[str, Callable[[], None]], count: int, rounds: int, seed: int) -> dict[str, list[float]]:
    """Seconds of a call in each round, in an order that is shuffled alike on all ranks."""
    order, dice = list(steps), random.Random(seed)
    samples: dict[str, list[float]] = {name: [] for name in order}
    for _ in range(rounds):
        dice.shuffle(order)
        for name in order:
            steps[name]()
            torch.cuda.synchronize()
            dist.barrier()
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            began.record()
            steps[name]()
            ended.record()
            ended.synchronize()
            samples[name].append(slower(began.elapsed_time(ended) / 1000 / count))
    return samples


def experiment(
    shape: tuple[int, int], dtype: str, mesh: DeviceMesh, rounds: int, limits: Any, alone: bool
) -> list[dict[str, Any]]:
    """A row for each way and each of eager and graph."""
    rows, n = shape
    ranks = dist.get_world_size()
    torch._dynamo.reset()
    generator = torch.Generator("cuda").manual_seed(dist.get_rank())
    itemsize = getattr(torch, dtype).itemsize
    nbytes = rows * (n // ranks) * itemsize
    count = max(2, min(64, -(-CACHED // nbytes)))
    inputs = [
        torch.randn(rows, n // ranks, generator=generator, device="cuda", dtype=getattr(torch, dtype))
        for _ in range(count)
    ]
    found = ways(mesh, rows)
    for name, way in list(found.items()):
        try:
            error = ""
            if name == "torch's loss_parallel":
                way(inputs[0])
            else:
                check(name, way, inputs[0])
        except (AssertionError, KernelZooError, RuntimeError, NotImplementedError) as wrong:
            error = f"{type(wrong).__name__}: {' '.join(str(wrong).split())[:300]}"
        if why := agreed(error):
            print(f"{name} of {shape} {dtype} is left out: {why}", file=sys.stderr)
            del found[name]
    made = []
    limit = limits.floor + 2 * nbytes / limits.copy
    whole = [torch.cat([x] * ranks, 1) for x in inputs[: max(2, count // ranks)]] if alone else []
    for how in ("graph", "eager"):
        steps: dict[str, Callable[[], None]] = {}
        for name, way in found.items():
            try:
                error = ""
                step = calls(way, inputs, how)
            except RuntimeError as wrong:
                error = " ".join(str(wrong).split())[:300]
            if why := agreed(error):
                print(f"{name} of {shape} {dtype} is left out in a {how}: {why}", file=sys.stderr)
            else:
                steps[name] = step
        samples = race(steps, count, rounds, 1)
        if whole:
            own = {"one GPU": calls(lambda x: kernelzoo.get("triton").softmax(x), whole, how)}
            samples |= race(own, len(whole), rounds, 2)
        for name, seconds in samples.items():
            us, least = median(seconds) * 1e6, limit * 1e6
            row: dict[str, Any] = {"shape": list(shape), "dtype": dtype, "how": how, "way": name, "ranks": ranks}
            row |= {"us": round(us, 2), "limit_us": round(least, 2), "over_us": round(us - least, 2)}
            made.append(row | {"samples_us": [round(one * 1e6, 2) for one in seconds]})
    return made


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Softmax over an axis that several GPUs share.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="what was found")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.rounds < 6:
        parser.error(f"--rounds {options.rounds} can't tell anything; it needs 6 at least")
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks < 2 or torch.cuda.device_count() < ranks:
        parser.error("run it by torch.distributed.run on 2 GPUs or more, a process each")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # no multicast
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank), timeout=datetime.timedelta(seconds=120))
    mesh = init_device_mesh("cuda", (ranks,))
    started, began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.monotonic()
    limits = ceilings(torch.device("cuda", rank))
    rows = []
    for shape in SHAPES:
        for dtype in DTYPES:
            if shape[1] % ranks == 0:
                rows += experiment(shape, dtype, mesh, options.rounds, limits, alone=True)
    if rank == 0:
        document: dict[str, Any] = {
            "format": FORMAT,
            "command": ["python", *(sys.argv if argv is None else ["bench/distributed.py", *argv])],
            "environment": {"device": measure.device_name("cuda"), "versions": measure.versions("cuda")},
            "ceilings": {"copy_bytes_per_s": limits.copy, "floor_s": limits.floor},
            "started": started,
            "seconds": round(time.monotonic() - began, 1),
            "rows": rows,
        }
        write_whole(options.output, (json.dumps(document, indent=1) + "\n").encode())
        print("shape dtype how | way | us | limit | over")
        for row in rows:
            problem = f"{'x'.join(map(str, row['shape']))} {row['dtype']} {row['how']}"
            print(problem, row["way"], row["us"], row["limit_us"], row["over_us"], sep=" | ")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
