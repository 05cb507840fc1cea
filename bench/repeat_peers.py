"""Our clock beside other projects' own, on a GPU: ``python bench/repeat_peers.py -o FILE.json``.

Each kernel of bench/peers is timed twice on one problem: by the clock of ``kernelzoo bench``, and by the way of timing
that its own project's benchmark uses. Where a project published a figure of this card, that stands beside them. Figures
that are further apart than 5 % fail, with exit status 1. What is not installed, or publishes neither, says so.

Where two clocks differ, a third way says whether the kernel or its surroundings do: ``plain``, events around one launch
behind a long read. A read leaves nothing for the cache to write back, and the host submits the launch meanwhile. For
JAX it is the time of a call less that of a call on 64 numbers.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import runpy
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernelzoo import measure, packages, registry
from kernelzoo.errors import KernelZooError
from kernelzoo.files import write_atomically
from kernelzoo.launch import Launch, postpone_result_copies
from kernelzoo.measure import profiler
from kernelzoo.measure.calls import choose_clock

ALLOWED = 0.05
LARGE = (16384, 16384)
"""So large that what an event adds, or a launch, is within what is allowed."""
SAMPLES = 7


def do_bench(launch: Launch) -> float:
    from triton.testing import do_bench

    return float(do_bench(launch, warmup=25, rep=100, return_mode="median")) / 1e3


def do_bench_cudagraph(launch: Launch) -> float:
    from triton.testing import do_bench_cudagraph

    return float(do_bench_cudagraph(launch, return_mode="median")) / 1e3


def inductors(launch: Launch) -> float:
    from torch._inductor.runtime.benchmarking import benchmarker

    return float(benchmarker.benchmark_gpu(launch)) / 1e3


def plain(launch: Launch) -> float:
    """Seconds between events around a launch that a long read of other data goes before."""
    other = torch.zeros(2**28, dtype=torch.float32, device="cuda")
    times: list[float] = []
    for _ in range(30):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        other.sum()
        first.record()
        launch()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) / 1e3)
    return statistics.median(times)


@dataclass(frozen=True)
class Peer:
    """A row of bench/peers, and how its own project times it."""

    id: str
    own: Callable[[Launch], float] | None
    """Seconds of a launch."""
    source: str
    """Of the way of timing, or of the figure; or why there is neither."""
    shape: tuple[int, int] = LARGE
    dtype: str = "float32"
    card: str = ""
    """Of a published figure: what the device's name holds."""
    published_gb_per_s: float | None = None


GITHUB = "https://github.com"
PEERS = (
    Peer("quack/softmax/library", do_bench, f"{GITHUB}/Dao-AILab/quack, benchmarks/: triton.testing.do_bench"),
    Peer(
        "quack/softmax/library",
        None,
        f"{GITHUB}/Dao-AILab/quack/blob/main/media/2025-07-10-membound-sol.md: 3.01 TB/s",
        (16384, 131072),
        card="H100",
        published_gb_per_s=3010.0,
    ),
    *(  # "generally ... about 3 TB/s", of rows longer than 4096
        Peer(
            f"quack/{op}/library",
            None,
            f"{GITHUB}/Dao-AILab/quack/blob/main/media/2025-07-10-membound-sol.md: about 3 TB/s",
            shape,
            "bfloat16",
            card="H100",
            published_gb_per_s=3000.0,
        )
        for op, shape in (("rms_norm", (32768, 16384)), ("cross_entropy", (16384, 65536)))
    ),
    *(
        Peer(
            f"liger/{op}/library",
            None,
            f"{GITHUB}/linkedin/Liger-Kernel/blob/main/benchmark/data/{file}.csv: {milliseconds} ms",
            shape,
            dtype,
            card=card,
            published_gb_per_s=2 * shape[0] * shape[1] * (2 if dtype == "bfloat16" else 4) / milliseconds / 1e6,
        )
        for op, file, milliseconds, shape, dtype, card in (
            ("layer_norm", "all_benchmark_data", 0.18477, (4096, 16384), "float32", "H100 80GB HBM3"),
            ("rms_norm", "h100_all_benchmark_data", 0.11066, (2048, 32768), "bfloat16", "H100 NVL"),
        )
    ),
    Peer(
        "liger/softmax/library",
        do_bench,
        f"{GITHUB}/linkedin/Liger-Kernel, benchmark/scripts/benchmark_softmax.py: triton.testing.do_bench",
    ),
    Peer("liger/softmax/cutile", do_bench, "as liger/softmax/library"),
    Peer("liger/softmax/cute", do_bench, "as liger/softmax/library"),
    *(  # what the gate finds wrong in bfloat16 has a time here
        Peer(id, do_bench, f"as {id.split('/')[0]}/softmax/library", dtype="bfloat16")
        for id in ("quack/add_rms_norm/library", "liger/cross_entropy/library")
    ),
    Peer("flaggems/softmax/library", do_bench, f"{GITHUB}/flagos-ai/FlagGems, benchmark/: triton.testing.do_bench"),
    Peer("flaggems/min/library", do_bench, "as flaggems/softmax/library"),
    *(
        Peer(
            f"tilegym/softmax/{variant}",
            do_bench_cudagraph,
            f"{GITHUB}/NVIDIA/TileGym, tests/benchmark/bench_softmax.py: triton.testing.do_bench_cudagraph",
        )
        for variant in ("library", "tma", "chunked")
    ),
    *(
        Peer(f"inductor/{op}/max_autotune", inductors, f"{GITHUB}/pytorch/pytorch, torch/_inductor: its benchmarker")
        for op in ("softmax", "min")
    ),
    *(
        Peer(
            f"helionexamples/softmax/{variant}",
            do_bench,
            f"{GITHUB}/pytorch/helion, helion/_testing.py, run_example: triton.testing.do_bench",
        )
        for variant in ("simple", "two_pass")
    ),
    *(
        Peer(id, None, "NVIDIA publishes no figure, and its benchmarks are C++ programs over nvbench")
        for id in ("cub/min/library", "cub/min/plain", "cudacompute/min/library", "cudacompute/min/plain")
    ),
)
TILELANG = f"{GITHUB}/tile-ai/tilelang, examples/online_softmax/online_softmax.py: tilelang.profiler.do_bench"
JAX = "https://docs.jax.dev/en/latest/benchmarking.html: a call, and block_until_ready"


def ours(launches: Sequence[Launch], device: torch.device) -> float:
    """Seconds of a launch by the clock of ``kernelzoo bench``."""
    for launch in launches:
        launch()
    turn = choose_clock(device, "device", "min").prepare_turn(launches)
    return statistics.median(turn(1) for _ in range(SAMPLES)) / len(launches)


def repeated(peer: Peer, device: torch.device) -> dict[str, Any]:
    """What the file says of one."""
    row: dict[str, Any] = {"id": peer.id, "shape": list(peer.shape), "dtype": peer.dtype, "source": peer.source}
    if peer.own is None and peer.published_gb_per_s is None:
        return row | {"skipped": f"can't be repeated: {peer.source}"}
    name = torch.cuda.get_device_name(device)
    if peer.card not in name:
        return row | {"skipped": f"can't be repeated: the figure is of an {peer.card}, this is an {name}"}
    problem = measure.Problem(peer.id.split("/")[1], peer.shape, peer.dtype)
    implementation = registry.implementation(peer.id)
    try:
        count = max(2, min(512, 2**28 // problem.bytes)) if peer.own else 2
        sets, generator = measure.TensorSets(problem, count, device), torch.Generator(device)
        for number in range(count):
            for x, drawn in zip(sets[number][0], problem.inputs(generator), strict=True):
                x.copy_(drawn)
        launches = [problem.launch(implementation, *sets[number]) for number in range(count)]
        with postpone_result_copies(count):  # no clock times the copies of what launches return
            seconds = ours(launches, device)
            theirs = peer.own(launches[0]) if peer.own else problem.bytes / (peer.published_gb_per_s or 0.0) / 1e9
            found = judged(seconds, theirs)
            if peer.own and not found["agrees"]:
                found |= third(seconds, plain(launches[0]))
    except KernelZooError as refusal:
        return row | {"skipped": str(refusal)}
    except Exception as error:  # a project that is broken here costs its own row and no other
        return row | {"skipped": f"failed: {type(error).__name__}: {error}"}
    finally:
        torch.cuda.empty_cache()
    return row | found


def third(ours: float, plain: float) -> dict[str, Any]:
    """What the third way says of our clock."""
    return {"plain_us": round(plain * 1e6, 3), "plain_ratio": round(plain / ours, 4)}


def judged(ours: float, theirs: float) -> dict[str, Any]:
    """Both times, and whether they agree."""
    ratio = theirs / ours
    return {
        "ours_us": round(ours * 1e6, 3),
        "theirs_us": round(theirs * 1e6, 3),
        "ratio": round(ratio, 4),
        "agrees": abs(ratio - 1) <= ALLOWED,
    }


def tilelang_row(device: torch.device) -> dict[str, Any]:
    """TileLang's published softmax, on the one shape that it is written for, from a clone below PEERS_SOURCES. It
    allocates its output, and so is no row of bench/peers."""
    row: dict[str, Any] = {"id": "tilelang/softmax/example", "shape": [8192, 8192], "dtype": "float16"}
    row["source"] = TILELANG
    file = Path(os.environ.get("PEERS_SOURCES", "")) / "tilelang/examples/online_softmax/online_softmax.py"
    if not file.is_file():
        return row | {"skipped": "set PEERS_SOURCES to a folder that holds a clone named tilelang"}
    try:
        own = importlib.import_module("tilelang.profiler").do_bench
        names = runpy.run_path(str(file))  # it checks its result, and prints its own time
        kernel, x = names["softmax_kernel"], names["X"]
        return row | judged(ours([lambda: kernel(x)], device), float(own(lambda: kernel(x), warmup=25, rep=100)) / 1e3)
    except Exception as error:
        return row | {"skipped": f"{type(error).__name__}: {error}"}


def jax_rows(device: torch.device) -> list[dict[str, Any]]:
    """JAX's functions by the profiler's clock, which sees XLA's streams too, and the way that JAX documents. Last: the
    profiler slows what comes after it."""
    xla = sys.modules["kernelzoo_peers.xla"]
    found = []
    for id, in_torch in xla.IN_TORCH.items():
        row: dict[str, Any] = {"id": id, "shape": list(LARGE), "dtype": "float32", "source": JAX}
        try:
            function = xla.functions()[id]
            import jax

            x = torch.randn(LARGE, device=device)
            torch.cuda.synchronize()
            seen = jax.dlpack.from_dlpack(x)
            result = torch.utils.dlpack.from_dlpack(function(seen).block_until_ready())
            expected = in_torch(x, -1)
            # Sums of terms that cancel, in another order, are compared by the size of the terms.
            rtol, atol = (1e-5, 1e-2) if "sum/" in id else (None, None)
            torch.testing.assert_close(result, expected, rtol=rtol, atol=atol, check_dtype=False)
            del result, expected

            def call(function: Any = function, seen: Any = seen) -> None:
                function(seen).block_until_ready()

            theirs = by_hand(call)
            small = jax.numpy.zeros((8, 8))
            host = by_hand(lambda function=function, small=small: function(small).block_until_ready())  # type: ignore[misc]
            if seconds := profiler.kernel_seconds([call], device):
                found.append(row | judged(seconds, theirs) | third(seconds, theirs - host))
            else:
                found.append(row | {"skipped": "the profiler timed no kernel"})
        except Exception as error:
            found.append(row | {"skipped": f"{type(error).__name__}: {error}"})
    return found


def by_hand(call: Launch) -> float:
    for _ in range(10):
        call()
    times = []
    for _ in range(50):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def line(row: dict[str, Any]) -> str:
    """A row of the table in words."""
    where = f"{row['id']:32} {row['dtype']} {row['shape'][0]}x{row['shape'][1]}"
    if "skipped" in row:
        return f"{where}: {row['skipped']}"
    told = "agrees" if row["agrees"] else f"more than {ALLOWED:.0%} apart"
    plain = f"; plain {row['plain_us']:.1f} µs, {row['plain_ratio']:.3f}" if "plain_us" in row else ""
    return f"{where}: ours {row['ours_us']:.1f} µs, theirs {row['theirs_us']:.1f} µs, {row['ratio']:.3f}: {told}{plain}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Our clock beside other projects' own; see the source.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")
    parser.add_argument("--only", default="", metavar="BACKENDS", help="with commas between")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("no GPU to measure on", file=sys.stderr)
        return 2
    packages.load_module(Path(__file__).with_name("peers") / "peers.py")
    device, only = torch.device("cuda", 0), options.only.split(",") if options.only else []
    document: dict[str, Any] = {
        "format": "kernelzoo-repeated/1",
        "environment": {"device": measure.device_name("cuda"), "versions": measure.versions("cuda")},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "allowed": ALLOWED,
        "rows": [],
    }

    def add(row: dict[str, Any]) -> None:
        print(line(row), flush=True)
        document["rows"].append(row)
        write_atomically(options.output, (json.dumps(document, indent=1) + "\n").encode())

    for peer in PEERS:
        if not only or peer.id.split("/")[0] in only:
            add(repeated(peer, device))
    if not only or "tilelang" in only:
        add(tilelang_row(device))
    for row in jax_rows(device) if not only or "jax" in only else ():
        add(row)
    return int(not all(row.get("agrees", True) for row in document["rows"]))


if __name__ == "__main__":
    sys.exit(main())
