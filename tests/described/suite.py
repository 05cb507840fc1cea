"""The adversary suite: every kernel that is made to get by, what it does, and the layer that rejects it.

    python tests/described/suite.py                     # the tables of docs/records/adversaries.md
    python tests/described/suite.py race cuda           # a line for each that races: who rejects it there
    python tests/described/suite.py race cuda -o FILE   # and a file of them, for the tables

The kernels stand in the tests that run them, and each test asserts the layer. On a GPU, each runs in a process of its
own, as some break the device for what comes after them there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
SHARED = TESTS / "shared"
sys.path.insert(0, str(SHARED))

import layers  # noqa: E402  (found on that path)
from adversaries import ADVERSARIES, PROBLEM, Adversary  # noqa: E402
from known_bad import KNOWN_BAD  # noqa: E402
from scripts import loaded  # noqa: E402

from kernelzoo.measure import Problem, device_name, versions  # noqa: E402
from kernelzoo.measure.guard import Guard  # noqa: E402
from kernelzoo.report import markers  # noqa: E402

PAGE = TESTS.parent / "docs" / "records" / "adversaries.md"
RECORD = TESTS.parent / "bench" / "results" / "h200-adversaries.json"
ACCEPTED, REFUSED = "accepted", "refused"


class Row(NamedTuple):
    """A kernel of the suite."""

    group: str
    does: str
    layer: str
    name: str = ""
    """Of one that races on a GPU too."""


class Control(NamedTuple):
    """An honest kernel, which is accepted."""

    id: str
    problem: Problem
    cache: str = "cold"


LARGE = Problem("softmax", (4096, 1024), "float32")
"""Of so few sets in the whole cache that nobody is warm before the gate has admitted it."""


def triton() -> list[Adversary]:
    try:
        from adversaries_triton import TRITON
    except ImportError:
        return []
    return TRITON


def racing() -> list[Adversary]:
    """Those that race on a GPU."""
    large = [replace(one, problem=LARGE) if one.problem is PROBLEM else one for one in ADVERSARIES]
    return [*triton(), *large]


def controls(device: str) -> list[Control]:
    problem = Problem("softmax", (2048, 16384), "bfloat16")
    ours = tuple(f"{name}/softmax/auto" for name in ("triton", "gluon", "cupy", "numba", "torch"))
    host = ("torch/softmax/eager", "cpu/softmax/auto")
    languages = host if device == "cpu" else ("adversary/softmax/honest", *ours)
    return [Control(id, problem) for id in languages]


def raced(device: str, id: str, problem: Problem, cache: str, rounds: int = 16) -> tuple[str, str]:
    """The layer that rejects it in a process of its own, and the words; or that it is accepted."""
    with Guard(device, [str(SHARED / "entrants.py")]) as guard:
        _, failed = guard.race(problem, [id], rounds=rounds, cache=cache)
    for row in failed:
        return REFUSED if row["outcome"] == "refused" else layers.layer_of(row["reason"]), row["reason"]
    return ACCEPTED, ""


def line(who: object, layer: str, reason: str) -> str:
    return f"{who!s:60} {layer:20} {' '.join(reason.split())[:160]}"


def race(device: str, names: Sequence[str], jobs: int, output: Path | None) -> int:
    """Race them, some at a time, as their times don't count; 1 if one gets by, or an honest one doesn't."""
    entrants = [one for one in (*racing(), *controls(device)) if not names or one.id.rpartition("/")[2] in names]
    found = {}
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda one: raced(device, one.id, one.problem, one.cache), entrants)
        for one, (layer, reason) in zip(entrants, results, strict=True):
            print(line(one.id, layer, reason), flush=True)
            found[one.id] = layer
    wrong = [one.id for one in entrants if (found[one.id] == ACCEPTED) != isinstance(one, Control)]
    print(f"{dict(Counter(found.values()))}; not as they should be: {', '.join(wrong) or 'none'}")
    if output is not None:
        told = {"device": device_name(device), "versions": versions(device), "layers": found}
        output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return int(bool(wrong))


def worded(name: str) -> str:
    return name.replace("_", " ").capitalize()


@cache
def rows() -> tuple[Row, ...]:
    """The register: read off what the tests run."""
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    for bad in KNOWN_BAD:
        layer = layers.FIRST if bad.gate else layers.LAST if bad.timed else layers.SUITE
        yield Row("wrong, or right at first", worded(bad.name) + (" (on a GPU)" if bad.gpu else ""), layer)
    for rule, op, dtype, _ in loaded(TESTS / "check" / "test_wrong_values.py").WRONG:
        yield Row("wrong on some values", f"{worded(rule.__name__)} ({op}, {dtype})", layers.FIRST)
    for one in ADVERSARIES:
        yield Row(one.group, one.does, one.layer, one.id)
    for one in triton():  # which only a GPU tells
        yield Row(one.group, one.does, recorded().get(one.id, "not run yet"), one.id)
    state = loaded(TESTS / "measure" / "test_process_state.py")
    for name in (*state.UNDONE, *state.LASTING, state.LAZY):
        yield Row("changes the process", worded(name), layers.STATE)
    for name, (_, words) in loaded(TESTS / "measure" / "test_trusted.py").REPLACED.items():
        yield Row("replaces the harness", f"Replaces {name} (`{words}`)", layers.HARNESS)
    guard = loaded(TESTS / "measure" / "test_guard.py")
    for does, words in (*guard.REASONS.values(), *guard.WORDS.values()):
        if (layer := layers.layer_of(words)) != layers.FIRST:  # one of them has words of its own
            yield Row("breaks its process, or answers for it", does, layer)


def recorded() -> dict[str, str]:
    """The layers by id, as they were on an H200."""
    held: dict[str, str] = json.loads(RECORD.read_text(encoding="utf-8"))["layers"] if RECORD.exists() else {}
    return held


def table(cells: Sequence[Sequence[str]]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([head, f"|{':--|' * len(cells[0])}", *rest])


def blocks() -> dict[str, str]:
    """What stands between the page's markers."""
    gpu, classes = recorded(), Counter((row.group, row.layer) for row in rows())
    return {
        "classes": table([("class", "rejected by", "kernels"), *((*key, str(n)) for key, n in classes.items())]),
        "kernels": table(
            [
                ("class", "what it does", "rejected by", "on an H200"),
                *((row.group, row.does, row.layer, gpu.get(row.name, "")) for row in rows()),
            ]
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/described/suite.py")
    commands = parser.add_subparsers(dest="command")
    racing = commands.add_parser("race", help="race them on a device")
    racing.add_argument("device")
    racing.add_argument("names", nargs="*", help="the last words of ids; all without any")
    racing.add_argument("--jobs", type=int, default=4, help="processes at a time")
    racing.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.command:
        return race(options.device, options.names, options.jobs, options.output)
    page, changed = markers.insert(PAGE.read_text(encoding="utf-8"), blocks(), PAGE.name)
    PAGE.write_text(page, encoding="utf-8")
    print("written:", ", ".join(changed) or "nothing, all is as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
