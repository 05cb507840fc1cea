"""Sizes, streams, threads, processes and a million calls: ``python tests/load/run.py -o load.json``."""

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "shared")]

import sections  # noqa: E402  # beside this file

from kernelzoo import measure  # noqa: E402
from kernelzoo.files import write_atomically  # noqa: E402
from kernelzoo.packages import load_module  # noqa: E402

FORMAT = "kernelzoo-load/1"
MEMORY = 112.0
"""GiB of the device that jobs beside one another may take."""
Row = dict[str, Any]


def measured(section: str, backend: str, options: argparse.Namespace) -> list[Row]:
    """Run one section on one backend in a process of its own; its rows, and one more if it didn't end well."""
    command = [sys.executable, __file__, "--child", section, "--backend", backend, "--device", options.device]
    command += ["--calls", str(options.calls), "--op", options.op]
    command += [word for module in options.module for word in ("--module", module)]
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    rows: list[Row] = []
    doing, started = "starting", time.monotonic()
    ended: tuple[str, str] | None = None  # the outcome of what it was doing, and how it came about
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, start_new_session=True
        )
        assert process.stdout is not None
        deadline = started + options.timeout
        for line in lines_until(process.stdout, deadline, options.patience):
            if line is None and time.monotonic() < deadline:
                ended = "failed", f"hung: not a word for {options.patience:g} s"
                break
            if line is None:
                ended = "unfinished", f"no end of the section within {options.timeout:g} s"
                break
            word, _, rest = line.partition(" ")
            if word == "row":
                rows.append(json.loads(rest))
                doing = "between cases"
            elif word == "doing":
                doing = rest
        if ended:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGABRT)  # for the stacks of its threads
                time.sleep(1)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()  # one that has no group of its own yet
        code = process.wait()
        process.stdout.close()
        log.seek(0)
        said = " | ".join(line.strip() for line in log.read().splitlines()[-12:])
    if code and not ended:
        ended = "failed", f"ended with status {code}"
    if ended:
        outcome, how = ended
        detail = f"{how}: {said}"[-1500:] if outcome == "failed" else how
        rows.append(sections.row(section, backend, doing, 0, time.monotonic() - started, outcome, detail=detail))
    return rows


def lines_until(stream: Any, deadline: float, patience: float) -> Any:
    """Lines of a process's output as they come; None, and no more, at the deadline or after as long without a word."""
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, min(patience, deadline - time.monotonic()))):
                yield None
                return
            read = os.read(stream.fileno(), 65536)
            if not read:
                return
            pending += read
            *whole, pending = pending.split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)


def child(options: argparse.Namespace) -> int:
    """One section of one backend, in this process: rows go to standard output as they are made."""
    for module in options.module:
        load_module(module)
    far = 2**31 if options.device == "cuda" else 2**18  # elements that sizes go past
    where = sections.Where(options.device, far, options.calls, options.op)
    for row in sections.rows(options.child, options.backend, where):
        print("row", json.dumps(row), flush=True)
    return 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--section", default=",".join(sections.SECTIONS), help="comma-separated; default: all")
    parser.add_argument("--backend", help="comma-separated; default: all that run on the device")
    parser.add_argument("--op", default="", choices=("", "softmax", "min"), help="default: both")
    parser.add_argument("--module", action="append", default=[], help="a Python file that registers implementations")
    parser.add_argument("--calls", type=int, default=1_000_000, help="calls that must leave no memory behind")
    parser.add_argument("--timeout", type=float, default=360.0, help="seconds for one section of one backend")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for one case, after which it hangs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.module = [str(Path(module).resolve()) for module in options.module]
    if options.backend is None:
        options.backend = "torch,triton,cupy,numba" if options.device == "cuda" else "torch,cpu"
    unknown = [name for name in options.section.split(",") if name not in sections.SECTIONS]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; known: {', '.join(sections.SECTIONS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    if options.child:
        return child(options)
    started, began = datetime.now(UTC).isoformat(), time.monotonic()
    names = options.backend.split(",")
    jobs = [
        (section, backend)
        for section in options.section.split(",")
        for backend in ([*names, "+".join(names)] if sections.SECTIONS[section].mixed and len(names) > 1 else names)
    ]
    # What needs the whole device comes last, alone; all backends together come when their kernels are on the disk.
    jobs.sort(key=lambda job: "+" in job[1])
    beside = [job for job in jobs if sections.SECTIONS[job[0]].gib < float("inf")]
    most = max((sections.SECTIONS[section].gib for section, _ in beside), default=MEMORY)

    def run(job: tuple[str, str]) -> list[Row]:
        rows = measured(*job, options)
        for row in rows:
            print(sections.line(row), flush=True)
        return rows

    # On the host every job has both cores' worth of threads; on a device, what bounds them is its memory.
    with ThreadPoolExecutor(min(8, int(MEMORY / most)) if options.device == "cuda" else 1) as pool:
        rows = [row for found in pool.map(run, beside) for row in found]
    rows += [row for job in jobs if job not in beside for row in run(job)]
    bad = [row for row in rows if row["outcome"] in ("failed", "unfinished")]
    counts = {name: sum(row["outcome"] == name for row in rows) for name in sections.OUTCOMES}
    print(", ".join(f"{count} {name}" for name, count in counts.items() if count))
    if options.output is not None:
        result = {
            "format": FORMAT,
            "command": ["python", "tests/load/run.py", *(sys.argv[1:] if arguments is None else arguments)],
            "environment": {
                "device": measure.device_name(options.device),
                "versions": measure.versions(options.device),
            },
            "started": started,
            "seconds": round(time.monotonic() - began, 1),
            "rows": rows,
        }
        write_atomically(options.output, (json.dumps(result, indent=1) + "\n").encode())
    return int(bool(bad) or not rows)


if __name__ == "__main__":
    sys.exit(main())
