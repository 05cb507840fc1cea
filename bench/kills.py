"""Random kills: ``python bench/kills.py -o FILE.json``. Is a row lost or doubled when processes of a sweep are killed?

``kernelzoo bench`` measures a set of problems, in as many sweeps as are needed. Judges and runners are killed at random
moments. A sweep that gives up is continued with ``--resume``. Then each row that was asked must stand in the file once:
as a result, or as a failure that names the kill. Exit status 1 otherwise.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelzoo.files import write_atomically

JUDGE, RUNNER = "kernelzoo.measure.judge.process", "kernelzoo.measure.worker"
KINDS = {JUDGE: "judge", RUNNER: "runner"}


def workers(below: int, older: float = 0.0) -> list[tuple[int, str]]:
    """The judges and runners among a process's descendants that have run for so many seconds, with their kind.

    A younger process with the same command is what ends another with its parent, and is spared.
    """
    oldest, left = dict[str, tuple[float, int]](), [below]
    while left:
        process = left.pop()
        with suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes().decode()
            for task in Path(f"/proc/{process}/task").iterdir():
                left += map(int, (task / "children").read_text().split())
            oldest[command] = max(oldest.get(command, (0.0, 0)), (age(process), process))
    return [
        (process, kind)
        for command, (seconds, process) in oldest.items()
        for name, kind in KINDS.items()
        if seconds >= older and name in command.split("\0")[:4]
    ]


def age(process: int) -> float:
    """Seconds since a process started."""
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def sweep(options: argparse.Namespace, path: Path, kills: Counter[str], chance: random.Random) -> dict[str, int]:
    """Measure the whole set, with kills while any are left; count what the file holds."""
    command = [sys.executable, "-m", "kernelzoo", "bench", *options.bench, "-o", str(path)]
    done = Counter[str]()
    while done["commands"] < 50:
        resume = ["--resume"] if path.exists() else []
        done["commands"] += 1
        with subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            while running.poll() is None and kills.total() < options.kills:
                with suppress(subprocess.TimeoutExpired):
                    running.wait(chance.uniform(0, options.every))
                if running.poll() is None and (there := workers(running.pid, options.older)):
                    process, kind = chance.choice(there)
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                        kills[kind] += 1
            said = running.communicate()[1].decode()
        if path.exists() and (running.returncode in (0, 1) or " 0 problems are left" in said):
            break
        print(f"status {running.returncode}: {said.strip().splitlines()[-1:]}", flush=True)
    return done | (counted(json.loads(path.read_text())) if path.exists() else Counter(rows=0))


def counted(document: dict[str, Any]) -> Counter[str]:
    """Rows of a results file: all, those that stand in it twice, and the failures."""
    failed = document["kernelzoo"]["failed"]
    rows = Counter(
        (row["op"], tuple(row["shape"]), row["dtype"], row["id"])
        for row in (*(entry["extra_info"] for entry in document["benchmarks"]), *failed)
    )
    return Counter(rows=len(rows), doubled=sum(count > 1 for count in rows.values()), failed=len(failed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python bench/kills.py", description="Kill processes of sweeps.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--every", type=float, default=4.0, help="most seconds between two kills")
    parser.add_argument("--older", type=float, default=0.0, help="spare processes younger than so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")
    parser.add_argument("bench", nargs="+", help="what kernelzoo bench is asked, after --")
    options = parser.parse_args()
    chance, kills, total, started = random.Random(options.seed), Counter[str](), Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        quiet = sweep(argparse.Namespace(**{**vars(options), "kills": 0}), Path(folder) / "asked.json", kills, chance)
        asked = quiet["rows"]
        if asked == quiet["failed"]:
            parser.error("without any kill no row has a result")
        while kills.total() < options.kills:
            total["sweeps"] += 1
            found = sweep(options, Path(folder) / f"{total['sweeps']}.json", kills, chance)
            total.update(found)
            total["lost"] += asked - found["rows"]
            print(f"{dict(kills)}: {asked} rows asked, {dict(found)}, {time.monotonic() - started:.0f} s", flush=True)
            document = {"bench": options.bench, "seed": options.seed, "asked": asked, "kills": kills, **total}
            write_atomically(options.output, json.dumps(document, indent=1).encode())
    return 1 if total["lost"] or total["doubled"] else 0


if __name__ == "__main__":
    sys.exit(main())
