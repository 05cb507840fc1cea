"""What Helion's own autotuner finds, and what that costs: ``python bench/helion_tuning.py -o FILE.json``.

Helion's published softmax (bench/peers/published.py) is tuned at each of its efforts, for its Triton and its CuTe
backend, on a few shapes. Each row has the seconds that tuning took, with compilation, and the time of the kernel found.
Beside them stand ours in Helion, which needs no tuning, and torch's. Every result is checked first.

Each GPU measures one row at a time. A file that is there is continued: the rows that it has are kept.

Set PEERS_SOURCES to a folder that holds a clone named helion. ``--budget`` is the most seconds that Helion may search
for one problem: its autotuner ends with the best that it has found by then, and the row says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import torch

from kernelzoo import measure, packages, registry
from kernelzoo.files import write_atomically
from kernelzoo.measure.calls import choose_clock

SHAPES = ((4096, 4096), (2048, 32000))
DTYPE = "bfloat16"
BACKENDS, EFFORTS = ("triton", "cute"), ("none", "quick", "full")
TUNED = ("helionexamples/softmax/two_pass",)
BESIDE = ("helion/softmax/auto", "torch/softmax/eager")
SAMPLES = 11
RAISED = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt)\b")
"""How the line of a traceback begins that says what was raised."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="to", type=Path, metavar="FILE.json")
    parser.add_argument("--budget", type=int, default=60, metavar="SECONDS", help="of a search (default: 60)")
    parser.add_argument("--row", nargs=2, metavar=("ID", "SHAPE"), help="measure this one here, and print it")
    given = parser.parse_args()
    if given.row:
        print(json.dumps(row(given.row[0], tuple(map(int, given.row[1].split("x"))))))
        return 0
    document: dict[str, Any] = {
        "format": "kernelzoo-helion-tuning/1",
        "environment": {"device": measure.device_name("cuda"), "versions": measure.versions("cuda")},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "rows": [],
    }
    if given.to.exists():
        document["rows"] = json.loads(given.to.read_text(encoding="utf-8"))["rows"]
    tuned = [(id, backend, effort) for effort in EFFORTS for backend in BACKENDS for id in TUNED]
    asked = [(*one, shape) for one in [*((id, "", "") for id in BESIDE), *tuned] for shape in SHAPES]
    known = {(row["id"], row["backend"], row["effort"], tuple(row["shape"])) for row in document["rows"]}
    gpus, lock = SimpleQueue[str](), Lock()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    for gpu in visible.split(",") if visible else map(str, range(torch.cuda.device_count())):
        gpus.put(gpu)

    def measured(id: str, backend: str, effort: str, shape: tuple[int, int]) -> None:
        gpu = gpus.get()
        found = {"id": id, "backend": backend, "effort": effort, "shape": list(shape), "dtype": DTYPE}
        found |= {"budget_seconds": given.budget} if effort == "full" else {}
        found |= apart(id, backend, effort, shape, given.budget, gpu)
        gpus.put(gpu)
        with lock:
            document["rows"].append(found)
            print(line(found), flush=True)
            write_atomically(given.to, f"{json.dumps(document, indent=1)}\n".encode())

    with ThreadPoolExecutor(gpus.qsize()) as threads:
        list(threads.map(lambda one: measured(*one), (one for one in asked if one not in known)))
    return 0


def apart(id: str, backend: str, effort: str, shape: tuple[int, int], budget: int, gpu: str) -> dict[str, Any]:
    """A row of a process of its own: Helion reads its settings at import, and a search may break the GPU."""
    settings = {"HELION_BACKEND": backend, "HELION_AUTOTUNE_EFFORT": effort, "HELION_SKIP_CACHE": "1"}
    settings |= {"HELION_AUTOTUNE_BUDGET_SECONDS": str(budget)} if effort == "full" else {}
    environment = {**os.environ, **(settings if backend else {}), "CUDA_VISIBLE_DEVICES": gpu}
    command = [sys.executable, __file__, "--row", id, "x".join(map(str, shape))]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3 * budget + 60)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {3 * budget + 60} s"}
    said = [text for text in done.stdout.splitlines() if text.startswith("{")]
    errors = [f"status {done.returncode}", *(text for text in done.stderr.splitlines() if RAISED.match(text))]
    found: dict[str, Any] = json.loads(said[-1]) if said and not done.returncode else {"failed": errors[-1]}
    return found


def row(id: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Seconds until a launch is there, which a tuner takes, and the median time of launches over many sets."""
    packages.load_module(Path(__file__).with_name("peers") / "peers.py")
    device, implementation = torch.device("cuda", 0), registry.implementation(id)
    problem = measure.Problem("softmax", shape, DTYPE)
    count = max(2, min(512, 2**28 // problem.bytes))
    sets, generator = measure.TensorSets(problem, count, device), torch.Generator(device)
    for number in range(count):
        for x, drawn in zip(sets[number][0], problem.inputs(generator), strict=True):
            x.copy_(drawn)
    started = time.perf_counter()
    launches = [problem.launch(implementation, *sets[0])]
    launches[0]()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    inputs, outs = sets[0]
    implementation.operation.assert_close(tuple(outs), inputs)
    launches += [problem.launch(implementation, *sets[number]) for number in range(1, count)]
    for launch in launches:
        launch()
    turn = choose_clock(device, "device", "min").prepare_turn(launches)
    median = statistics.median(turn(1) for _ in range(SAMPLES)) / count
    return {"first_launch_s": round(seconds, 2), "median_us": round(median * 1e6, 3)}


def line(found: dict[str, Any]) -> str:
    """A row in words."""
    how = f"{found['backend']} {found['effort']}".strip()
    where = f"{found['id']:32} {how:12} {found['shape'][0]}x{found['shape'][1]}"
    if "failed" in found:
        return f"{where}: {found['failed'][:160]}"
    return f"{where}: {found['median_us']:.1f} µs, the first launch after {found['first_launch_s']:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
