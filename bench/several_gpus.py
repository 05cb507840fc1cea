"""All that several GPUs are asked for, in one go: ``python bench/several_gpus.py -o FOLDER``, within eight minutes.

The checks of ranks (``bench/ranked_checks.py``), the bench of sharded operations (``bench/distributed.py``), and how
many more problems a sweep measures with more GPUs (``bench/scaling.py``), one after the other on all GPUs that there
are. What they found is in the folder, under the names of ``bench/results/``, with their logs; a short table of all is
printed last. What takes too long is stopped, and has written what it has. Status 1 if something is wrong, or was
stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import records
import torch
from ranked_checks import told
from ranks_model import table

from kernelzoo.files import read_json

BENCH = Path(__file__).parent
STOPPED = 20
"""Seconds that a program has to end when it is asked to."""


def run(program: str, arguments: Sequence[str], log: Path, seconds: float) -> str:
    """Run a program of this folder for so long at the most; what is wrong with how it ended, or ""."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(BENCH / program), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOPPED)
            return f"stopped after {seconds:.0f} s"
        finally:  # a rank that stays, its kernel waiting for another, would take half of a GPU from what comes next
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return f"exit status {status}, see {log}" if status else ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="All that several GPUs are asked for; see the source.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=8, help="all must end by then (default: %(default)s)")
    parser.add_argument("--ranks", type=int, help="default: a rank to each GPU, or two on the host")
    options = parser.parse_args(argv)
    gpus = torch.cuda.device_count()
    count = options.ranks or gpus or 2
    name = f"{records._name('0') if gpus else 'host'}x{count}"
    options.output.mkdir(parents=True, exist_ok=True)
    checks, bench = (options.output / f"{name}-{file}" for file in ("ranks.json", "distributed.json.gz"))
    # Else what a script's background starts would pass on to its programs that they ignore what asks them to end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    whole = options.minutes * 60
    ends = time.monotonic() + whole - STOPPED
    # Of eight minutes 40 s for the contract, and two and a half for the bench; the rest is what they take to start, to
    # compile and to end, and three sweeps.
    ranks, repeated = ["--ranks", str(count)], [] if gpus else ["--calls", "100"]
    steps = {
        "ranked_checks.py": ([*ranks, "--seconds", str(whole / 12), *repeated, "-o", str(checks)], whole * 0.35),
        "distributed.py": ([*ranks, "--seconds", str(whole * 0.3), "-o", str(bench)], whole * 0.4),
    }
    if gpus > 1:
        used, swept = ",".join(map(str, range(count))), options.output / f"{name}-scaling.json"
        steps["scaling.py"] = ["--gpus", used, "-o", str(swept)], whole * 0.35
    lines, bad = [], False
    for program, (arguments, seconds) in steps.items():
        began = time.monotonic()
        log = options.output / f"{Path(program).stem}.log"
        wrong = run(program, arguments, log, min(seconds, ends - began))
        bad = bad or bool(wrong)
        lines.append(f"{program:18} {time.monotonic() - began:4.0f} s  {wrong or 'done'}")
        print(lines[-1], flush=True)
    if bench.exists():
        print(table(read_json(bench)))
    if checks.exists():
        print(*map(told, read_json(checks)["rows"]), sep="\n")
    scaling = options.output / "scaling.log"
    if scaling.exists():
        print(*scaling.read_text(encoding="utf-8").splitlines()[-6:], sep="\n")
    print(*lines, sep="\n")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
