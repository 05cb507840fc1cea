"""How many more problems a sweep measures with more GPUs: ``python bench/scaling.py --gpus 0,1 --seconds 60``.

The same problems on the first GPU alone, on all of them, and on the first alone again, each for as long, counted from
the first result on. Status 1 if all together measure less than ``--least`` times as many as one, if a card is slower
than another by more than 2 %, or if a race is split or doubled.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BENCH = ("--op", "softmax", "--backend", "torch,cupy", "--variant", "eager,auto", "--shapes", "random:2000")


def measured(path: Path) -> dict[tuple[Any, ...], set[str]]:
    """The races of each problem in a file, with their GPUs."""
    document = json.loads(path.read_text()) if path.exists() else {"benchmarks": []}
    found: dict[tuple[Any, ...], set[str]] = {}
    for info in (entry["extra_info"] for entry in document["benchmarks"]):
        key = info["op"], info["dtype"], *info["shape"], info["dim"]
        found.setdefault(key, set()).add(f"{info['gpu']['index']} {info['gpu']['uuid']} {info['race']}")
    return found


def sweep(gpus: str, seconds: float, path: Path, bench: list[str]) -> tuple[float, Path]:
    """Problems a second, from the first result on."""
    command = [sys.executable, "-m", "kernelzoo", "bench", *bench, "--gpus", gpus, "-o", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    done, first, last = 0, 0.0, 0.0
    for line in process.stderr:
        if not line.startswith("["):
            print(f"  {line.rstrip()}")
            continue
        done, last = done + 1, time.monotonic()
        first = first or last
        if last - first >= seconds:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    return ((done - 1) / (last - first) if last > first else 0.0), path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="0,1")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--least", type=float, default=1.9)
    parser.add_argument("bench", nargs="*", help="options of kernelzoo bench, in place of a random sweep of softmax")
    given = parser.parse_args()
    first, lines, rates, wrong = given.gpus.split(",")[0], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for place, gpus in enumerate((first, given.gpus, first)):
            print(f"GPUs {gpus}", flush=True)
            rate, path = sweep(gpus, given.seconds, Path(folder, f"{place}.json"), given.bench or list(BENCH))
            problems = measured(path)
            cards = {race.split()[1] for races in problems.values() for race in races}
            wrong += [f"{problem} has {len(races)} races" for problem, races in problems.items() if len(races) != 1]
            workers = json.loads(path.read_text())["kernelzoo"]["workers"] if path.exists() else []
            ratios = [worker["check"]["ratio"] for worker in workers if worker["check"]]
            wrong += [f"the cards disagree: {ratios}" for _ in [0] if any(not r or r > 1.02 for r in ratios)]
            told = ", ".join(f"{ratio:.4f}" for ratio in ratios if ratio) or "-"
            lines.append(f"{gpus:>8} {len(cards):>6} {len(problems):>9} {rate:>11.3f}  {told}")
            rates.append(rate)
    gain = rates[1] / max(rates[0], rates[2], 1e-9)
    print("    GPUs  cards  problems  problems/s  card / fastest card", *lines, sep="\n")
    print(f"{given.gpus} over the better of {first} alone: {gain:.2f} times, at least {given.least} wanted")
    for words in wrong:
        print(f"WRONG {words}")
    return 1 if wrong or gain < given.least else 0


if __name__ == "__main__":
    sys.exit(main())
