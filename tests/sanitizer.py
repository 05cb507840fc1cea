"""Every kernel under compute-sanitizer: ``python tests/sanitizer.py -o bench/results/sanitizer-DEVICE.json``.

Not a pytest module: it needs an NVIDIA GPU and compute-sanitizer of the CUDA toolkit. It runs each implementation under
memcheck (accesses out of bounds), racecheck (shared memory raced for), initcheck (memory read before being written) and
synccheck (barriers misused), in processes of their own, on problems that reach every branch: rows shorter and longer
than each kernel holds, odd lengths, unaligned starts, rows across memory. Exits with 1 on any error.

Results are checked on the host: torch's own reductions on the device (2.11) have races to report.

For synccheck no cluster has more than the 8 blocks that every device grants. In clusters of 16 the tool (2025.3.1)
calls the first arrival at a barrier, by the thread that has just made it, one with a "missing wait": in blocks of ranks
past 7, if several clusters run at once. So it does with a barrier of the whole block before that, with all threads
waiting for it, and with it made invalid at the end; and never in clusters of 8 of the same kernels.
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
from pathlib import Path

import torch

from kernelzoo import backend as backends
from kernelzoo import measure, operations, registry
from kernelzoo.errors import UnsupportedProblemError

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
BACKENDS = ("triton", "cupy", "numba")
PORTABLE = 8  # blocks of a cluster
SHAPES = ((3, 17), (33, 129), (5, 1000), (7, 4099), (2, 20001), (3, 65536), (2, 300001))


def problems(op: str) -> Iterator[tuple[str, torch.Tensor, int]]:
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        return operations.sample(op, shape, dtype, generator=generator)

    for shape in SHAPES:
        yield f"float32 {shape}", draw(shape, "float32"), -1
    for dtype in ("bfloat16", "float64", *(("int8", "int64") if op == "min" else ())):
        for shape in ((33, 129), (7, 4099), (2, 20001)):
            yield f"{dtype} {shape}", draw(shape, dtype), -1
    yield "float32 over dim 0", draw((70, 45), "float32"), 0
    yield "float32 over dim 0, tall", draw((5003, 21), "float32"), 0
    for dtype in ("float32", "bfloat16", "float64"):  # columns at whole vectors, at odd widths, as one piece of memory
        for shape, dim in (((5003, 64), 0), ((3, 2049, 37), 1), ((20011, 33), 0), ((300, 1030), 0)):
            yield f"{dtype} {shape} over dim {dim}", draw(shape, dtype), dim
    yield "float32 over the middle", draw((3, 301, 37), "float32"), 1
    yield "float32 unaligned", draw((1 + 5 * 1003,), "float32")[1:].view(5, 1003), -1
    yield "bfloat16 unaligned, padded", draw((9, 4100), "bfloat16")[:, 3:4002], -1


def keep_clusters_portable(backend: str) -> None:
    if backend == "cupy":
        from kernelzoo.kernels.cupy import softmax as cuda_c

        cuda_c.LARGE_CLUSTERS = ()
    if backend == "numba":
        from kernelzoo.device import Device

        Device.cluster_blocks = PORTABLE


def run(backend: str, op: str, columns: bool, portable: bool) -> None:
    """In the sanitizer: run the implementations of a backend, and check what they return."""
    if portable:
        keep_clusters_portable(backend)
    for implementation in registry.implementations(backend, op or None):
        ran = 0
        for name, x, dim in problems(implementation.op):
            if columns and dim == -1:
                continue
            try:
                method = getattr(backends.get(backend), implementation.op)
                result = method(x, dim, variant=implementation.variant)
                method(x, dim, variant=implementation.variant, out=result)
            except UnsupportedProblemError:
                continue
            torch.cuda.synchronize()
            try:
                implementation.operation.assert_close(result.cpu(), x.cpu(), dim)
            except AssertionError as error:
                raise AssertionError(f"{implementation.id} on {name}: {error}") from error
            ran += 1
        print(f"ran {implementation.id} {ran}", flush=True)


def sanitize(sanitizer: str, tool: str, backend: str, what: list[str], log: Path | None) -> dict[str, object]:
    # Without torch's caching, every tensor is an allocation of its own, whose bounds memcheck knows.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONUNBUFFERED": "1"}
    # A driver's "no such function" to a library that asks for one is an answer, and no error of a kernel.
    checks = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = [sanitizer, "--tool", tool, *checks, "--error-exitcode", "9"]
    portable = tool == "synccheck"
    command += [sys.executable, __file__, "--run", backend, *what, *["--portable"] * portable]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if log is not None:
        (log / f"{tool}-{backend}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout)
    reports = [line for line in done.stdout.splitlines() if line.startswith("=====")]
    return {
        "tool": tool,
        "backend": backend,
        "exit_code": done.returncode,
        "largest_cluster": PORTABLE if portable else None,
        "summary": summary[-1] if summary else (done.stdout + done.stderr)[-500:],
        "problems": {id: int(count) for id, count in re.findall(r"^ran (\S+) (\d+)$", done.stdout, re.MULTILINE)},
        "said": [*reports[:40], *done.stderr.splitlines()[-10:]] if done.returncode else [],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every kernel under compute-sanitizer.")
    parser.add_argument("-o", "--output", type=Path, help="write the summary as JSON")
    parser.add_argument("--log", type=Path, help="folder for the sanitizer's whole output")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--op", default="", choices=("", *operations.OPERATIONS), help="default: both")
    parser.add_argument("--columns", action="store_true", help="problems over other axes than the last alone")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--portable", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.op, options.columns, options.portable)
        return 0
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if sanitizer is None:
        parser.error("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    if options.log is not None:
        options.log.mkdir(parents=True, exist_ok=True)
    pairs = [(tool, backend) for backend in options.backends.split(",") for tool in options.tools.split(",")]
    what = ["--op", options.op, *["--columns"] * options.columns]
    with ThreadPoolExecutor(len(pairs)) as pool:
        results = list(pool.map(lambda pair: sanitize(sanitizer, *pair, what, options.log), pairs))
    for result in results:
        ran = result["problems"]
        print(f"{result['backend']:7} {result['tool']:10} exit {result['exit_code']}: {result['summary']}; {ran}")
        for line in result["said"]:  # type: ignore[attr-defined]
            print(line)
    if options.output is not None:
        report = {
            "device": measure.device_name("cuda"),
            "versions": measure.versions("cuda"),
            "sanitizer": subprocess.run([sanitizer, "--version"], capture_output=True, text=True).stdout.split()[-1],
            "results": results,
        }
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    missed = [
        i.id
        for backend in options.backends.split(",")
        for i in registry.implementations(backend, options.op or None)
        if not all(r["problems"].get(i.id) for r in results if r["backend"] == backend)  # type: ignore[attr-defined]
    ]
    if missed:
        print("not run:", *missed)
    return int(bool(missed) or any(result["exit_code"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
