"""How many more problems a sweep measures with more GPUs: ``python bench/scaling.py --gpus 0,1 -o FILE.json``.

The same problems on all GPUs, which leaves the kernels compiled, on the first alone, and on all again. Each GPU's share
of the last sweep is compared with what the first alone took for those same problems, from its first result to its last,
so that neither starts nor ends count. Status 1 if all together are less than ``--least`` times as fast as one, if a
card is slower than another by more than 2 %, or if a race is split or doubled.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from kernelzoo.measure import device_name, versions

SHAPES = ",".join(f"{rows}x{n}" for rows in (512, 1000, 2048, 3001, 4096) for n in (1023, 1500, 2048, 2999, 3000, 4096))
BENCH = ("--op", "softmax", "--backend", "torch,cupy", "--variant", "eager,fused", "--dtype", "float32")
"""Two that are far apart: where a verdict is unclear, a race takes more rounds in one sweep than in another."""

Times = list[tuple[float, str, str]]
"""When a result came, of which problem, by which GPU."""


def measured(path: Path) -> dict[tuple[Any, ...], set[str]]:
    """The races of each problem in a file, with their GPUs."""
    document = json.loads(path.read_text()) if path.exists() else {"benchmarks": []}
    found: dict[tuple[Any, ...], set[str]] = {}
    for info in (entry["extra_info"] for entry in document["benchmarks"]):
        key = info["op"], info["dtype"], *info["shape"], info["dim"]
        found.setdefault(key, set()).add(f"{info['gpu']['index']} {info['gpu']['uuid']} {info['race']}")
    return found


def sweep(gpus: str, path: Path, bench: Sequence[str]) -> Times:
    """The results of a sweep, as they came."""
    command = [sys.executable, "-m", "kernelzoo", "bench", *bench, "--gpus", gpus, "-o", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    times: Times = []
    for line in process.stderr:
        if told := re.match(r"\[\d+/\d+\] (\S+?)(?: on (GPU \d+))?: ", line):
            times.append((time.monotonic(), told[1], told[2] or ""))
        else:
            print(f"  {line.rstrip()}")
    process.wait(timeout=120)
    return times


def gained(times: Times, alone: Times) -> float:
    """How many GPUs like the one that was alone would be as fast as all of a sweep."""
    took = {problem: now - before for (before, *_), (now, problem, _) in pairwise(alone)}
    found = 0.0
    for gpu in {gpu for *_, gpu in times}:
        own = [(when, problem) for when, problem, by in times if by == gpu]
        own = [one for i, one in enumerate(own) if not i or one[1] in took]
        if len(own) > 1:
            found += sum(took[problem] for _, problem in own[1:]) / (own[-1][0] - own[0][0])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", help="default: all")
    parser.add_argument("--least", type=float, help="default: 0.95 a GPU of two, 0.9 a GPU of more")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="what was found")
    parser.add_argument("--shape", default=SHAPES)
    parser.add_argument("bench", nargs="*", help="options of kernelzoo bench, in place of a sweep of softmax")
    given = parser.parse_args()
    given.gpus = given.gpus or ",".join(map(str, range(torch.cuda.device_count())))
    count = len(given.gpus.split(","))
    least = given.least or (0.95 if count == 2 else 0.9) * count
    found = list[dict[str, Any]]()
    first, lines, sweeps, wrong = given.gpus.split(",")[0], list[str](), list[Times](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for place, gpus in enumerate((given.gpus, first, given.gpus)):
            print(f"GPUs {gpus}", flush=True)
            path, began = Path(folder, f"{place}.json"), time.monotonic()
            times = sweep(gpus, path, ["--shape", given.shape, *(given.bench or BENCH)])
            problems = measured(path)
            cards = {race.split()[1] for races in problems.values() for race in races}
            wrong += [f"{problem} has {len(races)} races" for problem, races in problems.items() if len(races) != 1]
            workers = json.loads(path.read_text())["kernelzoo"]["workers"] if path.exists() else []
            ratios = [worker["check"]["ratio"] for worker in workers if worker["check"]]
            wrong += [f"the cards disagree: {ratios}" for _ in [0] if any(not r or r > 1.02 for r in ratios)]
            told = ", ".join(f"{ratio:.4f}" for ratio in ratios if ratio) or "-"
            seconds = times[-1][0] - began if times else 0.0
            found.append({"gpus": gpus, "problems": len(problems), "seconds": seconds, "slower": ratios})
            lines.append(f"{gpus:>8} {len(cards):>6} {len(problems):>9} {seconds:>9.1f} s  {told}")
            sweeps.append(times)
    gain = gained(sweeps[2], sweeps[1])
    print("    GPUs  cards  problems        time  card / fastest card", *lines, sep="\n")
    print(f"{given.gpus} are {gain:.2f} times as fast as {first} alone, at least {least:.2f} wanted")
    for words in wrong:
        print(f"WRONG {words}")
    if given.output is not None:
        environment = {"device": f"{count} x {device_name('cuda')}", "versions": versions("cuda")}
        facts = {"format": "kernelzoo-scaling/1", "environment": environment, "gain": gain}
        given.output.write_text(
            json.dumps({**facts, "sweeps": found, "wrong": wrong}, indent=1) + "\n", encoding="utf-8"
        )
    return 1 if wrong or gain < least else 0


if __name__ == "__main__":
    sys.exit(main())
