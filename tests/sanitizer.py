"""Every kernel under compute-sanitizer: ``python tests/sanitizer.py -o bench/results/sanitizer-DEVICE.json``.

Inputs and checks are the host's: torch's own reductions on the device (2.11) have races to report. For synccheck no
cluster has more than 8 blocks: in clusters of 16 the tool (2025.3.1) reports a wait that isn't missing.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from kernelzoo import measure, operations, registry
from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")  # the slowest first
BACKENDS = ("triton", "gluon", "cutile", "cute", "helion", "cupy", "numba")
PORTABLE = 8  # blocks of a cluster
DEVICE = "cuda"
SHAPES = ((3, 17), (33, 129), (5, 1000), (7, 4099), (2, 20001), (3, 65536), (2, 300001))


def problems(op: str) -> Iterator[tuple[str, tuple[torch.Tensor, ...], int]]:
    """Inputs of an operation, and the axis; of softmax and min some that lie anywhere."""
    generator, taken = torch.Generator().manual_seed(0), operations.OPERATIONS[op].dtypes

    def draw(shape: tuple[int, ...], dtype: str, dim: int = -1) -> tuple[torch.Tensor, ...]:
        drawn = operations.OPERATIONS[op].sample(shape, dtype, dim, generator=generator)
        return tuple(one.to(DEVICE) for one in drawn)

    for shape in SHAPES:
        yield f"float32 {shape}", draw(shape, "float32"), -1
    for dtype in (dtype for dtype in ("bfloat16", "float64", "int8", "int64") if dtype in taken):
        for shape in ((33, 129), (7, 4099), (2, 20001)):
            yield f"{dtype} {shape}", draw(shape, dtype), -1
    yield "float32 over dim 0", draw((70, 45), "float32", 0), 0
    yield "float32 over dim 0, tall", draw((5003, 21), "float32", 0), 0
    for dtype in (dtype for dtype in ("float32", "bfloat16", "float64") if dtype in taken):
        # Columns at whole vectors, at odd widths, as one piece of memory.
        for shape, dim in (((5003, 64), 0), ((3, 2049, 37), 1), ((20011, 33), 0), ((299, 1030), 0)):
            yield f"{dtype} {shape} over dim {dim}", draw(shape, dtype, dim), dim
    yield "float32 over the middle", draw((3, 301, 37), "float32", 1), 1
    if op in ("softmax", "min"):
        (x,), (padded,) = draw((1 + 5 * 1003,), "float32"), draw((9, 4100), "bfloat16")
        yield "float32 unaligned", (x[1:].view(5, 1003),), -1
        yield "bfloat16 unaligned, padded", (padded[:, 3:4002],), -1


def forms(backend: str, pattern: str) -> list[str]:
    """Ids of what has kernels of its own: a chooser launches those of a form."""
    return [i.id for i in registry.implementations(backend) if not i.chooses and fnmatch(i.id, pattern)]


def run(ids: list[str], portable: bool) -> None:
    """In the sanitizer: run these implementations, and check what they return."""
    if portable:
        Device.cluster_blocks = PORTABLE  # type: ignore[assignment, method-assign]
    for id in ids:
        implementation = registry.implementation(id)
        operation, ran = implementation.operation, 0
        for name, inputs, dim in problems(implementation.op):
            outs = operation.allocate(operation.arguments(inputs, dim))
            try:
                launch = implementation.launch(*inputs, dim=dim, out=outs)
            except UnsupportedProblemError:
                continue
            launch()
            launch()
            on_host = operation.arguments([one.cpu() for one in inputs], dim)
            try:
                operation.expect(on_host).check([out.cpu() for out in outs])
            except AssertionError as error:
                raise AssertionError(f"{id} on {name}: {error}") from error
            ran += 1
        print(f"ran {id} {ran}", flush=True)


def sanitize(sanitizer: str, tool: str, ids: list[str], log: Path | None) -> dict[str, Any]:
    """Run a few implementations of one backend under one tool, in a process of their own."""
    # Without torch's caching, every tensor is an allocation of its own, whose bounds memcheck knows.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONUNBUFFERED": "1"}
    environment["OMP_NUM_THREADS"] = "1"  # references on the host: there are as many of these processes as processors
    # A driver's "no such function" to a library that asks for one is an answer, and no error of a kernel.
    checks = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = [sanitizer, "--tool", tool, *checks, "--error-exitcode", "9"]
    portable = tool == "synccheck"
    command += [sys.executable, __file__, "--run", *ids, *["--portable"] * portable]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if log is not None:
        (log / f"{tool}-{ids[0].replace('/', '-')}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout)
    reports = [line for line in done.stdout.splitlines() if line.startswith("=====")]
    result: dict[str, Any] = {
        "tool": tool,
        "backend": ids[0].partition("/")[0],
        "exit_code": done.returncode,
        "largest_cluster": PORTABLE if portable else None,
        "summary": summary[-1] if summary else (done.stdout + done.stderr)[-500:],
        "problems": {id: int(count) for id, count in re.findall(r"^ran (\S+) (\d+)$", done.stdout, re.MULTILINE)},
        "said": [*reports[:40], *done.stderr.splitlines()[-10:]] if done.returncode else [],
    }
    print(f"{tool:10} exit {result['exit_code']}: {result['summary']}; {result['problems']}", flush=True)
    for line in result["said"]:
        print(line, flush=True)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every kernel under compute-sanitizer.")
    parser.add_argument("-o", "--output", type=Path, help="write the summary as JSON")
    parser.add_argument("--log", type=Path, help="folder for the sanitizer's whole output")
    parser.add_argument("forms", nargs="?", default="*", help="'cupy/softmax/columns*'; default: all")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--run", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--portable", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.portable)
        return 0
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if sanitizer is None:
        parser.error("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    if options.log is not None:
        options.log.mkdir(parents=True, exist_ok=True)
    ids = [forms(backend, options.forms) for backend in BACKENDS]
    few = [of_one[start : start + 3] for of_one in ids for start in range(0, len(of_one), 3)]
    pairs = [(tool, group) for tool in options.tools.split(",") for group in few]  # the next tool finds all compiled
    report = {
        "device": measure.device_name(DEVICE),
        "versions": measure.versions(DEVICE),
        "sanitizer": subprocess.run([sanitizer, "--version"], capture_output=True, text=True).stdout.split()[-1],
    }
    results: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda pair: sanitize(sanitizer, *pair, options.log), pairs):
            results.append(result)
            if options.output is not None:  # what is cut off has what it found
                text = json.dumps({**report, "results": results}, indent=1) + "\n"
                options.output.write_text(text, encoding="utf-8")
    missed = [
        f"{id} under {tool}"
        for tool, group in pairs
        for id in group
        if not any(result["tool"] == tool and result["problems"].get(id) for result in results)
    ]
    if missed:
        print("not run:", *missed, sep="\n  ")
    return int(bool(missed) or any(result["exit_code"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
