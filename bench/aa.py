"""The A/A experiment: ``python bench/aa.py -o FILE.json``. Does a kernel raced with itself come out as the same?

Torch eager, and the ``auto`` of every backend that runs here, each take part in a race twice, under their own name and
under a second one: bound, checked and captured anew for either, as two kernels would be. That again and again, on fresh
inputs; then the verdicts are counted, and how far the medians spread from race to race. What a race says of two
kernels is worth as much as what it says of one. Each race is held against the one before too, as ``--against`` would.

Exit status 1 if fewer than 95 in 100 races of some implementation say SAME, or if one of them is wrong.
``kernelzoo/report/aa.py`` reads the file.
"""

import argparse
import datetime
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import kernelzoo
from kernelzoo import measure, registry
from kernelzoo.errors import KernelZooError
from kernelzoo.files import write_whole
from kernelzoo.launch import Launch
from kernelzoo.measure.statistics import FEWEST, noisy, ratio_interval, regression, verdict
from kernelzoo.operations import OPERATIONS
from kernelzoo.report import aa

FAILED = 2
"""Exit status: the experiment could not be made."""


def again(implementation: registry.Implementation) -> registry.Implementation:
    """The same implementation under a second name."""

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return implementation.bind(x, out)

    variant = f"{implementation.backend}_{implementation.variant}"
    kernelzoo.register("again", implementation.op, variant)(bind)
    return kernelzoo.implementation(f"again/{implementation.op}/{variant}")


def entrants(op: str) -> list[registry.Implementation]:
    """Torch eager, and every other backend's ``auto``."""
    others = [i for i in kernelzoo.implementations(op=op) if i.variant == "auto" and i.backend != registry.BASELINE]
    return [kernelzoo.implementation(registry.baseline(op)), *others]


def experiment(
    implementation: registry.Implementation, problem: measure.Problem, device: torch.device, options: argparse.Namespace
) -> dict[str, Any]:
    """Race one implementation with itself that many times; what the file says of it."""
    twin = again(implementation)
    entry: dict[str, Any] = {"id": implementation.id, "refused": "", "failed": ""}
    raced: dict[str, list[Any]] = {"medians": [], "ratios": [], "verdicts": [], "against": [], "repeated_rounds": []}
    before = list[float]()
    for _ in range(options.pairs):
        first, second = measure.race(
            problem, [implementation, twin], device, rounds=options.rounds, until_clear=True
        ).values()
        for measured in (first, second):
            if not measured.samples:
                failed = measured.wrong or measured.failed
                return entry | {"refused": measured.refused, "failed": failed} | {name: [] for name in raced}
        ratio = ratio_interval(second.samples, first.samples, paired=True)
        raced["medians"].append(first.median)
        raced["ratios"].append([ratio.low, ratio.mid, ratio.high])
        raced["verdicts"].append(verdict(ratio, disturbed=bool(first.disturbed_rounds)).value)
        if before:
            raced["against"].append(held_against(first.samples, before, bool(first.disturbed_rounds), options.allowed))
        before = first.samples
        raced["repeated_rounds"].append(first.repeated_rounds)
    return entry | raced


def held_against(samples: Sequence[float], before: Sequence[float], disturbed: bool, allowed: float) -> str:
    """What ``--against`` would say of two races of one kernel."""
    if noisy(before, allowed):
        return "noisy"
    told = regression(samples, before, allowed=allowed, disturbed=disturbed)
    return "slower" if told.slower else "unclear" if told.unclear else "ok"


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    problem, device = measure.Problem(options.op, options.shape, options.dtype), torch.device(options.device)
    document: dict[str, Any] = {
        "device": measure.device_name(str(device)),
        "clock": "device" if device.type == "cuda" else "wall",
        "versions": measure.versions(str(device)),
        "datetime": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "problem": {"op": problem.op, "shape": list(problem.shape), "dtype": problem.dtype},
        "rounds": options.rounds,
        "allowed": options.allowed,
        "implementations": [],
    }
    for implementation in entrants(problem.op):
        try:
            entry = experiment(implementation, problem, device, options)
        except KernelZooError as error:
            print(f"error: {error}", file=sys.stderr)
            return FAILED
        print(f"{entry['id']}: {entry['refused'] or entry['failed'] or options.pairs}", flush=True)
        document["implementations"].append(entry)
        text = json.dumps(document, indent=1).encode()
        write_whole(options.output, gzip.compress(text, mtime=0) if options.output.suffix == ".gz" else text)
    found = aa.parse(document)
    print(f"\n{found.caption}\n\n{found.table().text()}")
    return 0 if all(twin.passed for twin in found.twins) else 1


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
