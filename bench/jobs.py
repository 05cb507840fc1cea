"""Jobs on a machine that is rented for a while: ``python bench/jobs.py bench/jobs.txt --minutes 25 --to FOLDER``.

A line of the list is a job: its name, the most seconds that it takes, and its command, in which ``{to}`` is FOLDER.
Jobs run one after another, and neighbours with a ``+`` before the name together. One that does not fit into the time is
not begun, and one that lasts too long is asked to end. ``--only`` takes some, by names with commas between. FOLDER gets
what each printed, and ``jobs.log``, a line for each.

Jobs whose names begin with ``0:`` have the first GPU to themselves, those with ``1:`` the second, at the same time. The
others follow, with all GPUs. ``--gpus 1`` gives the first GPU to all in turn.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

_ENDING = 15.0
"""Seconds that a job may take to end once it is asked to."""


@dataclass(frozen=True)
class Job:
    name: str
    seconds: float
    command: str
    together: bool = False
    gpu: str = ""


def read(text: str) -> list[Job]:
    """The jobs of a list. Raises ValueError for a line that is none."""
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            place, seconds, command = line.split(None, 2)
            gpu, _, name = place.rpartition(":")
            found.append(Job(name.lstrip("+"), float(seconds), command, name.startswith("+"), gpu))
    return found


def run(job: Job, seconds: float, to: Path, gpu: str) -> str:
    """Run a job for so many seconds at most; what became of it, in words."""
    with (to / f"{job.name}.log").open("wb") as output:
        command = job.command.replace("{to}", str(to))
        environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})}
        process = subprocess.Popen(
            ["bash", "-c", command], stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
        for number, wait in ((None, seconds), (signal.SIGINT, _ENDING), (signal.SIGKILL, _ENDING)):
            if number is not None:
                os.killpg(process.pid, number)
            try:
                status = process.wait(max(0.0, wait))
                return f"status {status}" if number is None else "cut off"
            except subprocess.TimeoutExpired:
                continue
    return "does not end"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Jobs on a machine that is rented for a while; see the source.")
    parser.add_argument("jobs", type=Path, metavar="JOBS")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="NAMES")
    parser.add_argument("--gpus", type=int, default=2, metavar="N", help="how many there are")
    options = parser.parse_args(argv)
    end, options.to = time.monotonic() + options.minutes * 60, options.to.resolve()
    options.to.mkdir(parents=True, exist_ok=True)
    jobs = read(options.jobs.read_text(encoding="utf-8"))
    if options.only:
        jobs = [job for job in jobs if job.name in options.only.split(",")]

    def make(job: Job) -> None:
        started = time.monotonic()
        seconds = min(job.seconds, end - started)
        gpu = str(int(job.gpu) % options.gpus) if job.gpu else ""
        fits = seconds >= job.seconds / 3
        words = run(job, seconds, options.to, gpu) if fits else "not begun: too little time is left"
        with (options.to / "jobs.log").open("a", encoding="utf-8") as log:
            log.write(f"{job.name}: {words}, {time.monotonic() - started:.0f} s\n")

    def one_by_one(some: Sequence[Job]) -> None:
        for together, neighbours in groupby(some, key=lambda job: job.together):
            if together:
                beside([partial(make, job) for job in neighbours])
            else:
                for job in neighbours:
                    make(job)

    lanes: dict[int, list[Job]] = {}
    for job in jobs:
        lanes.setdefault(int(job.gpu) % options.gpus if job.gpu else -1, []).append(job)
    last = lanes.pop(-1, [])
    beside([partial(one_by_one, some) for some in lanes.values()])
    one_by_one(last)
    return 0


def beside(calls: Sequence[Callable[[], None]]) -> None:
    """Make these calls at the same time."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
