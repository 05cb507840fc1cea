"""Jobs on a machine that is rented for a while: ``python bench/jobs.py bench/jobs.txt --minutes 25 --to FOLDER``.

A line of the list is a job: its name, the most seconds that it takes, and its command, in which ``{to}`` is FOLDER.
Jobs run one after the other. One that does not fit into the time is not begun, and one that lasts too long is asked to
end. Those with a ``+`` before the name run together, in the last ``--last`` minutes: none of them reads a clock.
``--only`` takes some, by names with commas between. FOLDER gets what each printed, and ``jobs.log``, a line for each.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ENDING = 15.0
"""Seconds that a job may take to end once it is asked to."""


@dataclass(frozen=True)
class Job:
    name: str
    seconds: float
    command: str
    together: bool = False


def read(text: str) -> list[Job]:
    """The jobs of a list. Raises ValueError for a line that is none."""
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, seconds, command = line.split(None, 2)
            found.append(Job(name.lstrip("+"), float(seconds), command, name.startswith("+")))
    return found


def run(job: Job, seconds: float, to: Path) -> str:
    """Run a job for so many seconds at most; what became of it, in words."""
    with (to / f"{job.name}.log").open("wb") as output:
        command = job.command.replace("{to}", str(to))
        process = subprocess.Popen(
            ["bash", "-c", command], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
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
    parser.add_argument("--last", type=float, default=0.0, metavar="MINUTES", help="for the jobs that run together")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="NAMES")
    options = parser.parse_args(argv)
    began, options.to = time.monotonic(), options.to.resolve()
    options.to.mkdir(parents=True, exist_ok=True)
    jobs = read(options.jobs.read_text(encoding="utf-8"))
    if options.only:
        jobs = [job for job in jobs if job.name in options.only.split(",")]

    def left(minutes: float) -> float:
        return minutes * 60 - (time.monotonic() - began)

    def make(job: Job, minutes: float) -> None:
        started, seconds = time.monotonic(), min(job.seconds, left(minutes))
        words = run(job, seconds, options.to) if seconds >= job.seconds / 3 else "not begun: too little time is left"
        with (options.to / "jobs.log").open("a", encoding="utf-8") as log:
            log.write(f"{job.name}: {words}, {time.monotonic() - started:.0f} s\n")

    for job in (job for job in jobs if not job.together):
        make(job, options.minutes - options.last)
    threads = [threading.Thread(target=make, args=(job, options.minutes)) for job in jobs if job.together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
