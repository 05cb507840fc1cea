"""Softmax, minimum and their gradients over a vocabulary that GPUs share: ``python bench/distributed.py -o FILE.json``.

It starts a rank to each GPU. Beside ours, by NCCL and by symmetric memory, in one launch or with torch's barrier, run
torch's own on DTensors, torch by hand with all_reduces, the same compiled, torch's loss_parallel (a cross entropy), and
ours on one GPU that has all of it. Each must be right on all shards before it is timed.

The clock is each device's, between two events around some calls on as many inputs as no cache holds, eager or in a CUDA
graph, behind an all_reduce that lets all ranks begin together; a sample is that of the slowest rank. The limit is the
largest of the ranks' own: a launch, and the bytes of its shard at the speed that this GPU copies or reads. What an
exchange alone takes is measured too; ``bench/ranks_model.py`` makes of it what more ranks would take.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ranked
import torch
import torch.distributed as dist
from ranked import Here
from ranked_ways import Inputs, SymmetricPairs, Way, all_reduced, ways
from ranks_model import table
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import kernelzoo
import kernelzoo.distributed
from kernelzoo import measure, operations
from kernelzoo.distributed.exchange import as_group_tuple, gather_from_ranks
from kernelzoo.errors import KernelZooError
from kernelzoo.measure.ceilings import Ceilings, ceilings

SHAPES = ((16, 262144), (2048, 128256), (8, 1048576), (4096, 151936), (256, 128256))
SMALL = ((4, 1024), (3, 515))
"""Those of a host, which measures nothing."""
DTYPES = ("bfloat16", "float32")
CACHED = 2**28
"""Bytes that the inputs of a sample have at the least: several times a cache."""
CHECKED = 512
"""Rows that are checked at a time, lest exact results fill the memory."""
EXCHANGED = (8, 256, 2048, 16384)
"""Rows of an exchange alone."""
QUEUED = 1_000_000
"""Cycles of a device, half a millisecond, in which the host has queued a sample."""
REPEATED = 20
"""Exchanges of a sample."""
OPS = {"softmax": (2, 1), "min": (1, 1), "softmax_backward": (3, 2), "min_backward": (2, 1)}
"""How often an element's bytes must move, and how many inputs have the axis."""

Step = tuple[Callable[[], Any], int]
"""A sample, and the calls in it."""


@dataclass(frozen=True)
class Problem:
    """What ranks share."""

    op: str
    shape: tuple[int, int]
    dtype: str
    cut: str = "evenly"

    def sizes(self, ranks: int) -> list[int]:
        return ranked.cut(self.shape[1], ranks, self.cut)

    def __str__(self) -> str:
        return f"{self.op} {'x'.join(map(str, self.shape))} {self.dtype} {self.cut}"


def problems(shapes: Sequence[tuple[int, int]]) -> Iterator[Problem]:
    """All, those first that tell the most."""
    some = shapes[:3]
    rest = [(op, shape, "evenly") for op in ("min", "softmax_backward", "min_backward") for shape in some[:2]]
    wanted = [("softmax", shape, "evenly") for shape in some] + rest
    wanted += [("softmax", shape, "evenly") for shape in shapes[3:]]
    wanted += [(op, some[1], cut) for cut in ranked.CUTS[1:] for op in ("softmax", "min")]
    wanted += [(op, some[-1], "evenly") for op in ("min", "softmax_backward", "min_backward")]
    for op, shape, cut in dict.fromkeys(wanted):
        for dtype in DTYPES:
            yield Problem(op, shape, dtype, cut)


def drawn(problem: Problem, here: Here, seed: int) -> Inputs:
    """This rank's inputs; those without the axis are the same on all ranks."""
    rows, n = problem.shape[0], problem.sizes(here.ranks)[here.rank]
    dtype = getattr(torch, problem.dtype)

    def normal(shape: tuple[int, ...], seed: int) -> torch.Tensor:
        generator = torch.Generator(here.device).manual_seed(seed)
        return torch.randn(shape, generator=generator, device=here.device, dtype=dtype)

    x = normal((rows, n), 1000 * seed + here.rank)
    if problem.op == "softmax_backward":
        return normal((rows, n), 1000 * seed + 500 + here.rank), kernelzoo.distributed.softmax(x)
    if problem.op == "min_backward":
        return x, kernelzoo.distributed.min(x), normal((rows,), seed)
    return (x,)


def complete(problem: Problem, inputs: Inputs, here: Here) -> Inputs:
    """The inputs with the axis whole."""
    sharded, sizes = OPS[problem.op][1], problem.sizes(here.ranks)
    return (*(ranked.whole(x, sizes, 1) for x in inputs[:sharded]), *inputs[sharded:])


def local(result: torch.Tensor) -> torch.Tensor:
    """A rank's part of a result, which a DTensor may have gathered."""
    if not isinstance(result, DTensor):
        return result
    placed = result.redistribute(placements=[Shard(1)]) if result.ndim == 2 else result
    found: torch.Tensor = placed.to_local()
    return found


def check(problem: Problem, name: str, way: Way, inputs: Inputs, here: Here) -> None:
    """Raise ContractError unless the result is right, and of ours the same bits twice."""
    if not way.same:
        way.call(*inputs)
        return
    found = local(way.call(*inputs)).contiguous()
    sizes, operation = problem.sizes(here.ranks), operations.OPERATIONS[problem.op]
    for begin in range(0, problem.shape[0], CHECKED):
        rows = slice(begin, begin + CHECKED)
        given = complete(problem, tuple(x[rows] for x in inputs), here)
        operation.assert_close(ranked.whole(found[rows], sizes, 1) if found.ndim == 2 else found[rows], given)
    if way.ours:
        again = local(way.call(*inputs)).contiguous()
        assert torch.equal(found.view(torch.uint8), again.view(torch.uint8)), f"{name}: other bits in another call"


def step(call: Callable[..., Any], inputs: Sequence[Inputs], how: str) -> Callable[[], Any]:
    """A sample: one call of each input."""

    def eager() -> None:
        for tensors in inputs:
            call(*tensors)

    eager()
    if how == "eager":
        return eager
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        eager()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # NCCL has threads too
        eager()
    return graph.replay


def sampled(call: Callable[[], Any], here: Here, how: str) -> float:
    """Seconds that this rank takes, from where all ranks have come. Of a graph the host's share is hidden: all is
    queued before the device begins."""
    if not here.cuda:
        dist.barrier()
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    torch.cuda.synchronize()
    if how == "graph":
        torch.cuda._sleep(QUEUED)  # type: ignore[no-untyped-call]
    dist.all_reduce(torch.zeros(1, device=here.device))
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    first.record()
    call()
    last.record()
    last.synchronize()
    milliseconds: float = first.elapsed_time(last)
    return milliseconds / 1000


def race(steps: dict[str, Step], rounds: int, here: Here, how: str) -> dict[str, list[float]]:
    """Seconds of a call in each round, in an order that is shuffled alike on all ranks; a first round is left out."""
    order, dice = list(steps), random.Random(1)
    samples: dict[str, list[float]] = {name: [] for name in order}
    for round in range(rounds + 1):
        dice.shuffle(order)
        for name in order:
            call, count = steps[name]
            seconds = ranked.slowest(sampled(call, here, how), here) / count
            if round:
                samples[name].append(seconds)
    return samples


def right(problem: Problem, mesh: DeviceMesh, inputs: Inputs, here: Here) -> dict[str, Way]:
    """The ways that every rank finds right."""
    compiled = problem.shape in SHAPES[:2]
    found = ways(problem.op, mesh, problem.shape[0], here, problem.sizes(here.ranks), compiled)
    for name, way in list(found.items()):
        try:
            error = ""
            check(problem, name, way, inputs, here)
        except (AssertionError, KernelZooError, RuntimeError, NotImplementedError) as wrong:
            error = ranked.in_words(wrong)
        if why := ranked.agreed(error):
            tell(here, f"{name} of {problem} is left out: {why}")
            del found[name]
    return found


def tell(here: Here, words: str) -> None:
    if here.rank == 0:
        print(words, file=sys.stderr, flush=True)


def experiment(
    problem: Problem, mesh: DeviceMesh, rounds: int, limits: Ceilings | None, here: Here
) -> list[dict[str, Any]]:
    """A row for each way and each of eager and graph."""
    torch._dynamo.reset()
    (passes, sharded), itemsize = OPS[problem.op], getattr(torch, problem.dtype).itemsize
    shards = [problem.shape[0] * n * itemsize for n in problem.sizes(here.ranks)]
    most = max(shards)
    count = max(2, min(64, -(-CACHED // (most * sharded)))) if here.cuda else 2
    inputs = [drawn(problem, here, seed) for seed in range(count + count % 2)]
    began = time.monotonic()
    found = right(problem, mesh, inputs[0], here)
    tell(here, f"  {len(found)} ways are right, compiled and checked in {time.monotonic() - began:.0f} s")
    own = 0.0 if limits is None else limits.shortest_seconds(problem.op, passes * shards[here.rank])
    each, made = [round(one * 1e6, 2) for one in ranked.each(own)], []
    alone = [complete(problem, one, here) for one in inputs[: max(2, len(inputs) // here.ranks)]]
    backend = kernelzoo.get("triton" if here.cuda else "torch")
    for how in ("graph", "eager") if here.cuda else ("eager",):
        steps: dict[str, Step] = {}
        began = time.monotonic()
        todo = [(name, way.call, inputs) for name, way in found.items()]
        for name, call, given in [*todo, ("one GPU", getattr(backend, problem.op), alone)]:
            try:
                error = ""
                ready = step(call, given, how)
            except RuntimeError as wrong:
                error = ranked.in_words(wrong)
            if why := ranked.agreed(error):
                tell(here, f"{name} of {problem} is left out in a {how}: {why}")
            else:
                steps[name] = ready, len(given)
        for name, seconds in race(steps, rounds, here, how).items():
            us, least = median(seconds) * 1e6, max(each)
            row: dict[str, Any] = {"op": problem.op, "shape": list(problem.shape), "dtype": problem.dtype}
            row |= {"cut": problem.cut, "how": how, "way": name, "ranks": 1 if name == "one GPU" else here.ranks}
            row |= {"us": round(us, 2), "limit_us": round(least, 2), "over_us": round(us - least, 2)}
            row |= {"bytes": passes * (sum(shards) if name == "one GPU" else most), "limits_us": each}
            made.append(row | {"samples_us": [round(one * 1e6, 2) for one in seconds]})
        tell(here, f"  raced ({how}) in {time.monotonic() - began:.0f} s")
    return made


def exchanges(rounds: int, here: Here) -> list[dict[str, Any]]:
    """What exchanges take that nothing else stands beside."""
    (group,), made = as_group_tuple(None), []
    for rows in EXCHANGED:
        pair = torch.zeros(2, rows, device=here.device)
        number, tiny = pair[:1].clone(), torch.zeros(rows, 128, device=here.device)
        calls: dict[str, Callable[[], Any]] = {
            f"{here.transport} all_gather of a pair a row": lambda pair=pair: gather_from_ranks(pair, group),  # type: ignore[misc]
            f"{here.transport} all_reduce of a number a row": lambda number=number: all_reduced(number),  # type: ignore[misc]
        }
        if here.cuda:
            symmetric = SymmetricPairs()
            calls |= {
                "symmetric memory, a pair a row with torch's barrier": lambda pair=pair: symmetric(pair, group),  # type: ignore[misc]  # noqa: B023
                "symmetric memory, torch's barrier alone": lambda pair=pair: symmetric.barrier(pair, group),  # type: ignore[misc]  # noqa: B023
                "one launch by symmetric memory, 128 columns": lambda x=tiny: kernelzoo.distributed.softmax(  # type: ignore[misc]
                    x, backend="triton", exchange="symmetric"
                ),
            }
        for how in ("graph", "eager") if here.cuda else ("eager",):
            steps: dict[str, Step] = {}
            for name, call in calls.items():
                try:
                    error = ""
                    ready = step(call, [()] * REPEATED, how)
                except (KernelZooError, RuntimeError) as wrong:
                    error = ranked.in_words(wrong)
                if why := ranked.agreed(error):
                    tell(here, f"{name} is left out in a {how}: {why}")
                else:
                    steps[name] = ready, REPEATED
            for name, seconds in race(steps, rounds, here, how).items():
                row: dict[str, Any] = {"way": name, "how": how, "rows": rows, "ranks": here.ranks}
                made.append(row | {"us": round(median(seconds) * 1e6, 2)})
    return made


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Operations over an axis that several GPUs share; see the source.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="what was found")
    parser.add_argument("--rounds", type=int, default=11, help="samples of each (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=240, help="no problem is begun later (default: %(default)s)")
    ranked.add_ranks(parser)
    options = parser.parse_args(argv)
    if options.rounds < 6:
        parser.error(f"--rounds {options.rounds} can't tell anything; it needs 6 at least")
    status = ranked.launched(options.ranks, Path(__file__), sys.argv[1:] if argv is None else argv)
    if status is not None:
        return status
    here, started = ranked.joined(), ranked.now()
    mesh = init_device_mesh(here.device.type, (here.ranks,))
    limits = ceilings(here.device) if here.cuda else None
    devices = ranked.each(f"{measure.device_name(str(here.device))} {measure.gpu_uuid(str(here.device)) or ''}".strip())
    speeds = ranked.each(
        None if limits is None else {"copy": limits.copy, "read": limits.read, "floor_s": limits.floor}
    )
    if here.cuda:
        tell(here, f"{time.monotonic() - here.began:4.0f} s  the GPUs' own speeds")
    alone, rows, left = exchanges(options.rounds, here), list[dict[str, Any]](), list[str]()
    tell(here, f"{time.monotonic() - here.began:4.0f} s  exchanges alone")

    def write() -> dict[str, Any]:
        more = {"devices": devices, "ceilings": speeds, "exchange": alone, "left_out": left}
        found = ranked.document("distributed", here, started, rows, **more)
        ranked.write(options.output, found)
        return found

    if here.rank == 0:
        write()
    for problem in problems(SHAPES if here.cuda else SMALL):
        why = "not begun in time" if here.late(options.seconds) else ""
        if not why:
            try:
                rows += experiment(problem, mesh, options.rounds, limits, here)
            except RuntimeError as wrong:  # it has no room, say
                why = ranked.in_words(wrong)
            why = ranked.agreed(why)
        tell(here, f"{time.monotonic() - here.began:4.0f} s  {problem}{f' is left out: {why}' if why else ''}")
        if why:
            left.append(f"{problem}: {why}")
        if here.cuda:
            torch.cuda.empty_cache()
        if here.rank == 0:  # should a rank fail in the next one
            write()
    if here.rank == 0:
        found = write()
        for row in alone:
            if row["how"] == ("graph" if here.cuda else "eager"):
                print(f"{row['rows']:>6} rows {row['us']:>9.1f} us  {row['way']}")
        print(table(found))
        print(
            f"{here.ranks} ranks; us of a call" + (" in a CUDA graph" if here.cuda else "; NO PERFORMANCE, on a host")
        )
        if left:
            print(f"{len(left)} problems are left out; the file says which")
    return ranked.leave()


if __name__ == "__main__":
    sys.exit(main())
