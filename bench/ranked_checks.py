"""Whether ranks are right, don't leak, and end when one of them does: ``python bench/ranked_checks.py -o FILE.json``.

contract: the cases of the contract, whose axis is cut evenly, unevenly and with a rank that has none of it, on all
backends; on GPUs in a CUDA graph too, and by symmetric memory. repeat: so many calls, eager and in a graph, which must
give the same bits and take no more memory. killed: the last rank is killed, and all others must raise PeerError within
the group's timeout. Status 1 if something is wrong. It starts its ranks itself: on all GPUs, or on two of gloo.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import ranked
import torch
from ranked import Here

import kernelzoo
import kernelzoo.distributed
from kernelzoo import operations
from kernelzoo.check.case import Case, Inputs
from kernelzoo.check.cases import cases
from kernelzoo.errors import BackendUnavailableError, KernelZooError

OPS = {"softmax": 1, "softmax_backward": 2, "min": 1, "min_backward": 1}
"""How many inputs have the axis."""
LARGEST = 2**21
"""Elements of a case."""
PATIENCE = 10.0
"""Seconds that ranks wait for one that was killed."""
STARTING = 120.0
"""Seconds within which ranks have come, compiled, and made their first calls."""
LEAK = 2**20
"""Bytes of a GPU that so many calls may take, and 32 times as many of the host, which allocates as it likes."""

Call = Callable[..., torch.Tensor]
Rows = list[dict[str, Any]]


def callers(op: str, here: Here) -> dict[str, Call]:
    """How the operation is called on shards, by name."""
    call = getattr(kernelzoo.distributed, op)
    found: dict[str, Call] = {}
    names = ("triton", "cupy", "numba") if here.cuda else ("torch", "cpu")
    for name in names if op == "min" else names[:1]:  # which alone has passes
        try:
            kernelzoo.get(name)
        except BackendUnavailableError:
            continue
        found[f"{name}, group"] = lambda *inputs, name=name, **more: call(*inputs, backend=name, **more)
    if op == "softmax" and here.cuda:
        found["triton, symmetric"] = lambda *inputs, **more: call(
            *inputs, backend="triton", exchange="symmetric", **more
        )
    return found


def shards(op: str, inputs: Inputs, sizes: Sequence[int], dim: int, here: Here) -> Inputs:
    """This rank's part of each input that has the axis."""
    cut = (torch.split(x, list(sizes), dim)[here.rank] for x in inputs[: OPS[op]])
    return (*cut, *inputs[OPS[op] :])


def captured(call: Callable[[], torch.Tensor]) -> Call:
    """The call as a graph, once it has run."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL has threads of its own
        found = call()

    def run() -> torch.Tensor:
        graph.replay()
        return found

    return run


def agreeing(step: Callable[[], torch.Tensor | Call]) -> Any:
    """What a step makes, which may not be left out where it fails on another rank: that one would wait for it."""
    error, made = "", None
    try:
        made = step()
    except (AssertionError, KernelZooError, RuntimeError) as wrong:
        error = ranked.in_words(wrong)
        print(f"rank {os.environ['RANK']}: {error}", file=sys.stderr, flush=True)
    if why := ranked.agreed(error):
        raise AssertionError(why)
    return made


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(-1).view(torch.uint8)


def tried(case: Case, cut: str, call: Call, graph: bool, here: Here) -> str:
    """What is wrong with a call on shards of a case, in words; "" if nothing is, on any rank."""
    assert isinstance(case.dim, int)
    operation, inputs = operations.OPERATIONS[case.op], case.inputs(str(here.device))
    sizes = ranked.cut(inputs[0].size(case.dim), here.ranks, cut)
    own = shards(case.op, inputs, sizes, case.dim, here)
    named = {"dim": case.dim} | ({"keepdim": case.keepdim} if case.op == "min" else {})
    error = ""
    run = partial(call, *own, **named)
    try:
        found = agreeing(run)
        ready = agreeing(partial(captured, run)) if graph else run
        again = [agreeing(lambda: ready().clone()) for _ in range(2)]
        if not all(torch.equal(bits(found), bits(one)) for one in again):
            error = f"other bits {'in a graph' if graph else 'in another call'}"
        if case.op != "min":
            found = ranked.whole(found.contiguous(), sizes, case.dim)
        operation.assert_close(found, inputs, case.dim, case.keepdim)
    except (AssertionError, KernelZooError, RuntimeError) as wrong:
        error = error or ranked.in_words(wrong)
    return ranked.agreed(error)


def contract(here: Here, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each operation and way to call it, each with its part of the time, in which cases are drawn."""
    ways = [(op, name, call) for op in OPS for name, call in callers(op, here).items()]
    for i, (op, name, call) in enumerate(ways):
        until = time.monotonic() - here.began + (seconds - (time.monotonic() - here.began)) / (len(ways) - i)
        wanted = [case for case in cases(op) if isinstance(case.dim, int) and case.elements <= LARGEST]
        random.Random(1).shuffle(wanted)
        count, wrong, began = 0, [], time.monotonic()
        for case in wanted:
            if case.place or case.scalars or case.name.endswith("-scalar"):
                continue
            if "symmetric" in name and case.dtype == "float64":
                continue
            if count and here.late(until):
                break
            for cut in ranked.CUTS:
                graph = here.cuda and (count % 4 == 0)
                error = tried(case, cut, call, graph, here)
                count += 1
                if error:
                    wrong.append(f"{case.name} {cut}{' in a graph' if graph else ''}: {error}")
        row: dict[str, Any] = {"section": "contract", "op": op, "way": name, "count": count, "wrong": len(wrong)}
        yield row | {"seconds": round(time.monotonic() - began, 1), "detail": "; ".join(wrong[:3])}


def held(here: Here) -> int:
    """Bytes that this process holds of its device, or of the host at most so far."""
    gc.collect()
    if here.cuda:
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def repeat(here: Here, calls: int) -> Iterator[dict[str, Any]]:
    """A row for each operation and way: so many calls on inputs of a few shapes, all of which have another turn."""
    shapes = ((16, 4096), (3, 1001), (129, 640))
    ways = [(op, name, call) for op in ("softmax", "min") for name, call in callers(op, here).items()]
    for op, name, call in ways:
        inputs = [torch.randn(shape, device=here.device) for shape in shapes]
        first = [call(x).clone() for x in inputs]
        for how in ("eager", "graph") if here.cuda else ("eager",):
            began, error = time.monotonic(), ""
            runs: list[Callable[[], torch.Tensor]] = [partial(call, x) for x in inputs]
            if how == "graph":
                runs = list(map(captured, runs))
            before = 0
            for i in range(calls):
                if i == calls // 10:
                    before = held(here)
                found = runs[i % 3]()
                if i % 97 == 0 and not torch.equal(bits(found), bits(first[i % 3])):
                    error = f"call {i} gave other bits"
            grown = held(here) - before
            if grown > LEAK * (1 if here.cuda else 32):
                error = f"{grown} bytes more after the last call than after a tenth of them"
            error = ranked.agreed(error)
            row: dict[str, Any] = {"section": "repeat", "op": op, "way": f"{name}, {how}", "count": calls}
            row |= {"wrong": int(bool(error)), "seconds": round(time.monotonic() - began, 1), "detail": error}
            yield row


def survive(exchange: str) -> int:
    """What each rank does while the last one is killed: it says how long it waited, and for which error."""
    here = ranked.joined(PATIENCE)
    x = torch.randn(16, 4096, device=here.device)
    backend = "triton" if here.cuda else "torch"
    for _ in range(3):
        kernelzoo.distributed.softmax(x, backend=backend, exchange=exchange)
    ranked.agreed("")
    if here.rank == here.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    faulthandler.dump_traceback_later(PATIENCE + 5)  # where it hangs
    began, error = time.monotonic(), "no error"
    try:
        for _ in range(3):  # by symmetric memory, the call after the one that waited in vain says so
            kernelzoo.distributed.softmax(x, backend=backend, exchange=exchange)
            if here.cuda:
                torch.cuda.synchronize()
    except Exception as wrong:
        error = ranked.in_words(wrong)
    try:
        print(json.dumps([time.monotonic() - began, error]), flush=True)
    finally:
        os._exit(0)  # no farewell: it would wait for the rank that is gone


def killed(ranks: int, cuda: bool) -> Iterator[dict[str, Any]]:
    """A row for each exchange: the longest that a rank waited for its error."""
    for exchange in ("group", "symmetric") if cuda else ("group",):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
        place |= {"TORCH_NCCL_BLOCKING_WAIT": "1", "NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
        began = time.monotonic()
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--survive", exchange],
                env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        wrong, waited = [], 0.0
        try:
            for rank, process in enumerate(processes):
                try:
                    said = process.communicate(timeout=max(1, began + STARTING + 2 * PATIENCE - time.monotonic()))[0]
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    wrong.append(f"rank {rank} hangs")
                    continue
                if rank < ranks - 1:
                    seconds, error = (
                        json.loads(said.splitlines()[-1]) if said.strip() else (0.0, "it ended without a word")
                    )
                    waited = max(waited, seconds)
                    if not error.startswith("PeerError") or seconds > PATIENCE + 5:
                        wrong.append(f"rank {rank} after {seconds:.1f} s: {error}")
        finally:  # one that stays would take half of its GPU from whatever comes next
            for process in processes:
                process.kill()
        row: dict[str, Any] = {"section": "killed", "op": "softmax", "way": exchange, "count": ranks - 1}
        yield row | {"wrong": len(wrong), "seconds": round(waited, 1), "detail": "; ".join(wrong)}


def told(row: dict[str, Any]) -> str:
    """A row in 80 columns, and what is wrong below."""
    line = (
        f"{row['section']:9} {row['op']:17} {row['way']:26} {row['count']:>6} {row['wrong']:>5} {row['seconds']:>7} s"
    )
    return line + (f"\n  {row['detail']}" if row["detail"] else "")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks of operations over ranks; see the source.")
    parser.add_argument("sections", nargs="*", default=["contract", "repeat", "killed"], metavar="SECTION")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="what was found")
    parser.add_argument("--seconds", type=float, default=100, help="of the contract (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=10000, help="of each way to repeat (default: %(default)s)")
    parser.add_argument("--survive", choices=("group", "symmetric"), help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    ranked.add_ranks(parser)
    options = parser.parse_args(argv)
    if unknown := set(options.sections) - {"contract", "repeat", "killed"}:
        parser.error(f"no section {', '.join(sorted(unknown))}; known: contract, repeat, killed")
    if options.survive:
        return survive(options.survive)
    if options.rows:
        serve(options)
    cuda = torch.cuda.is_available()
    count, failed = options.ranks or torch.cuda.device_count() or 2, ""
    rows: Rows = []
    here, started = Here(0, count, torch.device("cuda" if cuda else "cpu")), ranked.now()

    def write() -> None:
        if options.output:
            ranked.write(options.output, ranked.document("ranks", here, started, rows))

    try:
        with tempfile.TemporaryDirectory() as folder:
            if kinds := [name for name in options.sections if name != "killed"]:
                path = Path(folder, "rows.json")
                given = [*kinds, "--seconds", str(options.seconds), "--calls", str(options.calls), "--rows", str(path)]
                try:
                    status = ranked.launched(count, Path(__file__), given)
                    failed = f"ranks ended with status {status}" if status else ""
                finally:
                    rows += json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
                    write()
        for row in killed(count, cuda) if "killed" in options.sections else ():
            rows.append(row)
            write()
    except KeyboardInterrupt:
        failed = "stopped"
    print("section   op                way                         count wrong    time")
    print(*map(told, rows), sep="\n")
    if failed:
        print(failed)
    return int(bool(failed) or not rows or any(row["wrong"] for row in rows))


def serve(options: argparse.Namespace) -> NoReturn:
    """The sections that all ranks do together."""
    here, rows = ranked.joined(), Rows()
    parts = {"contract": lambda: contract(here, options.seconds), "repeat": lambda: repeat(here, options.calls)}
    for name in options.sections:
        for row in parts[name]():
            rows.append(row)
            if here.rank == 0:
                options.rows.write_text(json.dumps(rows), encoding="utf-8")
    ranked.leave()


if __name__ == "__main__":
    sys.exit(main())
