"""The A/A experiment: ``python bench/aa.py -o FILE.json``. Does a kernel raced with itself come out as the same?

Torch eager, and the ``auto`` of every backend that runs here, each take part in a race twice: in the runner of
kernelzoo's kernels, and in one of their own under a second name. That again and again, on fresh inputs. Then the
verdicts are counted, and how far the medians spread from race to race. Each race is held against the one before too, as
``--against`` would.

Exit status 1 if fewer than 95 in 100 races of some implementation say SAME, or if one of them is wrong.
``kernelzoo report FILE.json`` makes a table of it.
"""

import argparse
import datetime
import gzip
import json
import shlex
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernelzoo import measure, registry, terminal
from kernelzoo.files import write_atomically
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.statistics import FEWEST, noisy, ratio_interval, regression, verdict
from kernelzoo.measure.worker_process import GuardError
from kernelzoo.operations import OPERATIONS
from kernelzoo.report import findings

WANTED = 0.95
"""Share of an implementation's races with itself that must say SAME."""

FAILED = 2
"""Exit status: the experiment could not be made."""

TWINS = """
import functools
import kernelzoo
from kernelzoo.packages import load_module

for path in {modules!r}:
    load_module(path)


def twin(made):
    bind = functools.wraps(made.bind)(lambda *tensors, **scalars: made.bind(*tensors, **scalars))
    kernelzoo.register("again", made.op, f"{{made.backend}}_{{made.variant}}")(bind)


for id in {ids!r}:
    twin(kernelzoo.implementation(id))
"""
"""A file of kernels: the same implementations under second names."""


def entrants(op: str, ids: Sequence[str]) -> list[str]:
    """Torch eager, and every other backend's ``auto``, of the implementations with these ids."""
    first = registry.baseline(op)
    others = [id for id in ids if id.split("/")[1:] == [op, "auto"] and not id.startswith(f"{registry.BASELINE}/")]
    return [first, *others]


def again(id: str) -> str:
    """The second name of an implementation."""
    backend, op, variant = id.split("/")
    return f"again/{op}/{backend}_{variant}"


def experiment(id: str, problem: measure.Problem, guard: Guard, options: argparse.Namespace) -> dict[str, Any]:
    """Race one implementation with itself that many times; its row of the record."""
    raced: dict[str, list[Any]] = {"medians": [], "ratios": [], "verdicts": [], "against": [], "repeated_rounds": []}
    before = list[float]()
    for _ in range(options.pairs):
        found, lost = guard.race(problem, [id, again(id)], rounds=options.rounds)
        if lost:
            return {"id": id, "outcome": lost[0]["outcome"], "reason": lost[0]["reason"].partition(";")[0]}
        first, second = (one["stats"]["data"] for one in found)
        info = found[0]["extra_info"]
        disturbed = DISTURBED in info["flags"]
        ratio = ratio_interval(second, first, paired=True)
        raced["medians"].append(found[0]["stats"]["median"])
        raced["ratios"].append([ratio.low, ratio.mid, ratio.high])
        raced["verdicts"].append(verdict(ratio, disturbed=disturbed).value)
        if before:
            raced["against"].append(held_against(first, before, disturbed, options.allowed))
        before = first
        raced["repeated_rounds"].append(info["repeated_rounds"])
    return {"id": id, "outcome": "raced", **counted(raced), **raced}


def counted(raced: dict[str, list[Any]]) -> dict[str, Any]:
    """How often each verdict was given, and how far the medians spread."""
    medians, said = raced["medians"], Counter(raced["verdicts"])
    middle, against = statistics.median(medians), Counter(raced["against"])
    return {
        "races": len(medians),
        "same": said["same"],
        "faster_or_slower": said["faster"] + said["slower"],
        "unclear": said["unclear"],
        "median_us": middle * 1e6,
        "spread_%": round(100 * (max(medians) - min(medians)) / middle, 2),
        "sd_%": round(100 * (statistics.stdev(medians) if len(medians) > 1 else 0.0) / middle, 2),
        "slower_than_before": against["slower"],
        "too_noisy": against["noisy"],
    }


def passed(row: dict[str, Any]) -> bool:
    """Whether enough races say SAME."""
    return bool(row["outcome"] == "raced" and row["same"] >= WANTED * row["races"])


def held_against(samples: Sequence[float], before: Sequence[float], disturbed: bool, allowed: float) -> str:
    """What ``--against`` would say of two races of one kernel."""
    if noisy(before, allowed):
        return "noisy"
    told = regression(samples, before, allowed=allowed, disturbed=disturbed)
    return "slower" if told.slower else "unclear" if told.unclear else "ok"


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    problem, device = measure.Problem(options.op, options.shape, options.dtype), torch.device(options.device)
    clock, began = "device" if device.type == "cuda" else "wall", time.monotonic()
    shape = ", ".join(map(str, problem.shape))
    document: dict[str, Any] = {
        "format": "kernelzoo-aa/1",
        "command": shlex.join(["python", "bench/aa.py", *(sys.argv[1:] if argv is None else argv)]),
        "environment": {"device": measure.device_name(str(device)), "versions": measure.versions(str(device))},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "what": f"{clock} clock: {problem.op} of ({shape}) {problem.dtype}, {options.rounds} rounds in a race, "
        f"{options.allowed:.0%} slower allowed",
        "rows": [],
    }
    try:
        with tempfile.TemporaryDirectory() as folder:
            twins = Path(folder) / "twins.py"
            modules = [str(module.resolve()) for module in options.module]
            with Guard(str(device), modules) as guard:
                ids = options.ids or entrants(problem.op, list(guard.about.summaries))
            twins.write_text(TWINS.format(modules=modules, ids=ids), encoding="utf-8")
            with Guard(str(device), [str(twins)]) as guard:  # which loads the others
                for id in ids:
                    row = experiment(id, problem, guard, options)
                    print(f"{id}: {row.get('reason', options.pairs)}", flush=True)
                    document["rows"] += [row] if row["outcome"] != "refused" else []  # which is no fault
                    document["seconds"] = round(time.monotonic() - began, 3)
                    _write(options.output, document)
    except GuardError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    print(f"\n{findings.terminal_text([options.output], terminal.width())}")
    return 0 if all(map(passed, document["rows"])) else 1


def _write(path: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1).encode()
    write_atomically(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python bench/aa.py",
        description="Race kernels with themselves, and count what the races say.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--pairs", type=int, default=100, help="races of each implementation")
    parser.add_argument("--op", default=next(iter(OPERATIONS)), choices=sorted(OPERATIONS), help="the operation")
    parser.add_argument("--shape", default="4096x4096", type=_shape, help="the input's shape")
    parser.add_argument("--dtype", default="float32", help="the input's dtype")
    parser.add_argument("--rounds", type=int, default=15, help="samples in a race")
    parser.add_argument("--allowed", type=float, default=0.05, help="the slowdown that --against would allow")
    parser.add_argument("--ids", nargs="+", default=[], help="which implementations, instead of all")
    parser.add_argument("--module", action="append", default=[], type=Path, help="a file of kernels")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="torch device")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="or FILE.json.gz")
    options = parser.parse_args(argv)
    if options.rounds < FEWEST:
        parser.error(f"--rounds {options.rounds} can't tell anything; a verdict needs {FEWEST} at least")
    if options.pairs < 1:
        parser.error(f"--pairs {options.pairs}: race at least once")
    if options.dtype not in OPERATIONS[options.op].dtypes:
        parser.error(f"{options.op} has no dtype {options.dtype!r}; known: {', '.join(OPERATIONS[options.op].dtypes)}")
    return options


def _shape(text: str) -> tuple[int, ...]:
    lengths = text.split("x")
    if not all(length.isdecimal() and int(length) for length in lengths):
        raise argparse.ArgumentTypeError(f"{text!r} is no shape; write 4096x4096")
    return tuple(map(int, lengths))


if __name__ == "__main__":
    sys.exit(main())
