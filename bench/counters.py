"""What hardware counters say of the kernels that fall short: ``python bench/counters.py RESULTS... -o FILE.json``.

Takes the results of maps, of other axes or random problems, and runs each ``auto`` of ``--backends`` that reached less
than ``--below`` of the limit, on a problem of ``--bytes`` at least, once more, under Nsight Compute (``ncu``, of the
CUDA toolkit), with cold caches: bytes of device memory read and written, beside those that must be moved; how full the
multiprocessors were, what the warps waited for, and how busy the units for instructions and for exponentials were. The
times are those under the profiler, a single launch each, and are no results: they only say which kernel of several took
how long. ``kernelzoo report FILE.json`` makes a table of it.
"""

import argparse
import csv
import datetime
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from kernelzoo import measure, packages, registry
from kernelzoo.files import write_atomically
from kernelzoo.measure import Problem
from kernelzoo.report import reading, results

FORMAT = "kernelzoo-profile/1"
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
METRICS = {
    "us": ("gpu__time_duration.sum", 1e-3),
    "MB read": ("dram__bytes_read.sum", 1e-6),
    "MB written": ("dram__bytes_write.sum", 1e-6),
    "L2 hits %": ("lts__t_sector_hit_rate.pct", 1),
    "warps %": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1),
    "registers": ("launch__registers_per_thread", 1),
    "blocks": ("launch__grid_size", 1),
    "wait for memory": (STALLED.format("long_scoreboard"), 1),
    "wait at barriers": (STALLED.format("barrier"), 1),
    "exponential unit %": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", 1),
    "issue slots %": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 1),
}
"""Columns, Nsight Compute's metric for each, and the factor from its base unit. Waits are cycles of a warp,
for each instruction that it issues."""

Case = dict[str, Any]
"""``id``, ``shape``, ``dim`` and ``dtype`` of one launch, and ``of_limit``, the share that it reached in the map."""


def short(paths: list[Path], backends: Collection[str], below: float, bytes: int) -> list[Case]:
    """The launches of these backends' ``auto`` that reached less than this share of the limit, and move so much."""
    rows = [row for group in reading.load(paths).groups for row in group.rows]
    found = [
        {
            "id": row.id,
            "shape": row.problem.shape,
            "dim": row.problem.dim,
            "dtype": row.problem.dtype,
            "of_limit": row.of_limit,
        }
        for row in rows
        if row.variant == "auto" and row.backend in backends
        if row.of_limit is not None and row.of_limit < below and row.bytes >= bytes
    ]
    # The backends' launches of one problem follow each other, so that its data is drawn once.
    return sorted(found, key=lambda case: (case["id"].split("/")[1], case["shape"], case["dtype"], case["id"]))


def run(cases: list[Case]) -> None:
    """Under the profiler: each case once, which it alone is told of."""
    device = torch.device("cuda")
    drawn, inputs = None, tuple[torch.Tensor, ...]()
    for number, case in enumerate(cases):
        implementation = registry.implementation(case["id"])
        problem = Problem(implementation.op, tuple(case["shape"]), case["dtype"], case["dim"])
        if problem != drawn:
            inputs = ()  # before there are the next ones: both might not fit
            inputs, drawn = problem.inputs(torch.Generator(device).manual_seed(number)), problem
        launch = problem.launch(implementation, inputs, problem.operation.allocate(problem.arguments(inputs)))
        launch()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push(f"case {number}")  # type: ignore[no-untyped-call]
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
        launch()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
        torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]


def profile(ncu: str, cases: list[Case]) -> list[dict[str, Any]]:
    """A row for each kernel that the cases launch. Raises RuntimeError with the profiler's own words."""
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "cases.json"
        given.write_text(json.dumps(cases), encoding="utf-8")
        command = [ncu, "--clock-control", "none", "--profile-from-start", "off", "--nvtx", "--csv", "--page", "raw"]
        command += ["--print-units", "base", "--metrics", ",".join(name for name, _ in METRICS.values())]
        done = subprocess.run([*command, sys.executable, __file__, "--run", given], capture_output=True, text=True)
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    found = []
    for line in csv.DictReader(io.StringIO(done.stdout[start:])):
        said = next((re.search(r"case (\d+)", text) for text in line.values() if text and "case " in text), None)
        if said is None:  # the line of units
            continue
        case = cases[int(said[1])]
        op = registry.implementation(case["id"]).op
        moved = Problem(op, tuple(case["shape"]), case["dtype"], case["dim"]).bytes
        row = {
            "id": case["id"],
            "problem": f"{case['dtype']} {results.Problem(case['dim'] % len(case['shape']), tuple(case['shape']), '')}",
            "of limit": round(case["of_limit"], 2),
            "kernel": re.split(r"[<(\[]", line["Kernel Name"].removeprefix("void "))[0].split("::")[0],
            "MB to move": round(moved / 1e6, 1),
        }
        for name, (metric, factor) in METRICS.items():
            value = float(line[metric].replace(",", "")) * factor
            row[name] = round(value, 1) if value < 100 else round(value)
        found.append(row)
    return sorted(found, key=lambda row: (row["id"].split("/")[1], row["problem"], row["id"]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Profile what falls short of the limit.")
    parser.add_argument("results", type=Path, nargs="*", help="results of `kernelzoo bench --shapes map`")
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")
    built_in = ",".join(name for name in packages.BUILT_IN if name not in (registry.BASELINE, "cpu"))
    parser.add_argument("--backends", default=built_in, help="whose launches (default: %(default)s)")
    parser.add_argument("--below", type=float, default=0.85, help="share of the limit (default: %(default)s)")
    parser.add_argument("--bytes", type=int, default=0, help="that a problem moves at the least (default: %(default)s)")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        run(json.loads(options.run.read_text(encoding="utf-8")))
        return 0
    if not options.results:
        parser.error("name a file of results")
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if ncu is None:
        parser.error("ncu is not on the PATH; it comes with the CUDA toolkit")
    started, began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.monotonic()
    rows = profile(ncu, short(options.results, options.backends.split(","), options.below, options.bytes))
    for row in rows:
        print(*row.values(), sep=" | ")
    if options.output is not None:
        document = {
            "format": FORMAT,
            "command": ["python", *sys.argv],
            "environment": {"device": measure.device_name("cuda"), "versions": measure.versions("cuda")},
            "started": started,
            "seconds": round(time.monotonic() - began, 1),
            "rows": rows,
        }
        write_atomically(options.output, (json.dumps(document, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
