"""Verdicts on solutions of other people's problem sets: right, wrong, undecidable or refused."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelzoo.cli import output, sizes
from kernelzoo.definitions.folders import Solution, Task
from kernelzoo.definitions.loading import workloads_beside
from kernelzoo.errors import KernelZooError
from kernelzoo.measure import Problem
from kernelzoo.measure.measurement import BUSY, UNDECIDABLE, UNJUDGED
from kernelzoo.measure.worker_process import SHORT
from kernelzoo.operations import OPERATIONS

Row = dict[str, Any]

VERDICTS = ("wrong", "refused", UNDECIDABLE, "right")
"""The verdicts, in the order of the table."""

_STYLES = {"wrong": "red", "refused": "yellow", UNDECIDABLE: "yellow"}

_CHEATS = ("false time", "not repeatable", "changes the process")
"""The kinds of faults that verdicts report as ``timing: KIND``."""

_CASE = ("dtype", "shape", "axes", "scalars", "place", "got", "expected")
"""The facts of a failing case: dtype, sizes, scalars, and the wrong element."""


@dataclass
class Judgment:
    """The results of judging one solution so far."""

    file: str
    task: Task
    solution: Solution
    ids: list[str] = field(default_factory=list)
    """The ids of its implementations: one, or for a gpu-mode problem one per test."""
    right: list[Problem] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    failures: list[Row] = field(default_factory=list)
    """Workloads on which the solution raised an error. It is wrong then only if it is right on another workload."""
    unjudged: str = ""
    """Why a workload can't be judged: the reference or the judge died or hung. Then the solution can't be right."""
    wrong: Row | None = None
    """The first failure by a wrong result, a crash or a hang. It decides the verdict."""
    times: list[tuple[float, float | None]] = field(default_factory=list)
    """For each timed workload, the seconds of its launch, and of the reference's launch in the same rounds."""

    inputs_from_files: list[str] = field(default_factory=list)
    """Inputs that workloads read from files. They are drawn at random."""

    def add(self, problem: Problem, failed: Row | None, seconds: float | None, reference: float | None) -> None:
        """Record the result on a workload: why the solution failed, or, if timed, its and the reference's seconds."""
        if failed is None or failed.get("kind") == BUSY:
            self.right.append(problem)
            if seconds is not None:
                self.times.append((seconds, reference))
        elif failed.get("kind") == UNDECIDABLE:
            self.undecided.append(failed["reason"])
        elif failed.get("kind") == UNJUDGED:
            self.unjudged = failed["reason"]
        elif failed["outcome"] == "refused" or failed["reason"].endswith(SHORT):
            self.refusals.append(failed["reason"])
        elif failed["outcome"] == "failed" and failed["reason"].startswith("raised"):
            self.failures.append(failed)
        else:
            self.wrong = failed

    def decide_verdict(self, workload_count: int, workload_errors: Sequence[str] = ()) -> Row:
        """Return the verdict. ``workload_count``: how many became problems. ``workload_errors``: why others did not."""
        bad = self.wrong or (self.failures[0] if self.failures and self.right else None)
        if bad is not None:
            case = {key: bad[key] for key in _CASE if key in bad}
            return self._record("wrong", fault_kind(bad), bad["reason"], workload_count) | {"case": case}
        if self.unjudged:
            return self.refused(self.unjudged, UNJUDGED, workload_count)
        if self.right:
            return self._record("right", "", "", workload_count)
        if self.failures:
            return self.refused(self.failures[0]["reason"], "raises", workload_count)
        if self.undecided:
            return self._record(UNDECIDABLE, "the reference is wrong", self.undecided[0], workload_count)
        return self.refused(next(iter((*self.refusals, *workload_errors)), "it has no workload"), "", workload_count)

    def refused(self, reason: str, kind: str = "", workloads: int = 0) -> Row:
        """Return the verdict on a solution that can't be judged on this machine."""
        kind = kind or ("does not compile" if "can't be built" in reason else "can't run")
        return self._record("refused", kind, reason, workloads)

    def _record(self, verdict: str, kind: str, reason: str, workloads: int) -> Row:
        timed = self.times if verdict == "right" else []
        ratios = [own / of for own, of in timed if of]
        return {
            "file": self.file,
            "solution": self.solution.name,
            "author": self.solution.author,
            "definition": self.task.name,
            "id": self.ids[0] if self.ids else "",
            "link": self.solution.link,
            "sha256": self.task.digest(self.solution),
            "verdict": verdict,
            "kind": kind,
            "reason": reason,
            "case": None,
            "workloads": workloads,
            "right_on": len(self.right),
            "undecidable_on": len(self.undecided),
            "refused_on": len(self.refusals),
            "timed_on": len(timed),
            "median_us": timed[-1][0] * 1e6 if timed else None,
            "ratio": math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None,
            "published_speedup": self.solution.published,
            "inputs_from_files": self.inputs_from_files,
        }


def convert_workloads_to_problems(task: Task, ops: Sequence[str]) -> tuple[list[Problem], list[str]]:
    """Return a definition's workloads as problems, sorted by bytes, and the reasons why some can't become problems.

    KernelBench and gpu-mode have no workloads: there, the operation states the sizes of its inputs.
    """
    workloads = workloads_beside(task.path) if task.kind == "definition" else ()
    found, unmade = list[Any](), list[str]()
    for op in ops:
        dtype, meant = OPERATIONS[op].dtypes[0], OPERATIONS[op].hooks.get("sizes", ())
        for one in workloads or [{"axes": each, "inputs": {}} for each in meant]:
            try:
                problem = sizes.from_workload(op, dtype, one)
                if problem not in found:
                    found.append(problem)
            except KernelZooError as error:
                unmade.append(str(error))
    return sorted(found, key=lambda problem: problem.bytes), unmade


def fault_kind(failed: Row) -> str:
    """Return the kind of a fault, taken from the judge's message."""
    reason, kind = failed["reason"], failed.get("kind", "")
    if failed["outcome"] == "failed":
        return "raises" if reason.startswith("raised") else "hangs" if reason.startswith("hung") else "crashes"
    if kind in _CHEATS or reason.startswith("right when checked alone, wrong when timed"):
        return f"timing: {kind or 'wrong value'}"
    if reason.startswith("under another current stream"):
        return "not on the current stream"
    if kind == "wrong kind of result":
        return next((f"wrong {what}" for what in ("dtype", "shape", "device") if f"has {what}" in reason), kind)
    return kind or "wrong value"


def tally_text(verdicts: Iterable[Row]) -> str:
    count = Counter(one["verdict"] for one in verdicts)
    return ", ".join(f"{count[name]} {name}" for name in reversed(VERDICTS) if count[name]) or "none"


def print_verdicts(found: Sequence[Row], judged: int, timed: int) -> None:
    console = output.console()
    order = sorted(found, key=lambda one: (one["definition"], VERDICTS.index(one["verdict"]), one.get("ratio") or 0.0))
    sampled = any(one.get("workloads", 0) > judged for one in found)
    output.print_note(
        console,
        f"{tally_text(found)}. Each is judged on {'a sample of ' if sampled else ''}at most {judged} workloads of its "
        f"definition, by size, and timed on at most {timed} of them; slow ones on these alone. µs: on the largest. "
        "speedup: the time of the reference, as it is written, over its own; the geometric mean. published: what its "
        "own set states.",
    )
    short = short_names(name for one in order for name in (one["definition"], one["solution"]))
    rows = list[list[str]]()
    for one in order:
        speedup = output.number(1 / ratio) if (ratio := one.get("ratio")) else ""
        us = "" if one.get("median_us") is None else output.number(one["median_us"])
        published = output.number(stated) if (stated := one.get("published_speedup")) else ""
        undecided = one.get("undecidable_on") if one["verdict"] == "right" else 0
        kind = f"undecidable on {undecided} of {one['workloads']}" if undecided else one["kind"]
        rows.append([short[one["definition"]], short[one["solution"]], one["verdict"], kind, us, speedup, published])
    titles = "definition", "solution", "verdict", "kind", ">µs", ">speedup", ">published"
    kept = [place for place in range(len(titles)) if place < 4 or any(row[place] for row in rows)]
    made = output.make_table(*(titles[place] for place in kept), optional=("definition",))
    for one, row in zip(order, rows, strict=True):
        made.add_row(*(row[place] for place in kept), style=_STYLES.get(one["verdict"]))
    output.show(console, made)
    if any(one.get("inputs_from_files") for one in found):
        output.print_note(console, f"{sizes.FROM_FILES}.")
    for one in order:
        if one["verdict"] != "right":
            name = "/".join(filter(None, (one["definition"], one["solution"])))
            output.print_note(console, f"{name}: {verdict_text(one)}")


def verdict_text(one: Row) -> str:
    """Return a verdict as a sentence with the failing case and the reason."""
    case = one.get("case") or {}
    axes = case.get("axes") or {}
    where = ",".join(f"{axis}={size}" for axis, size in axes.items()) or "x".join(map(str, case.get("shape", ())))
    scalars = "".join(f" {name}={value}" for name, value in case.get("scalars", {}).items() if name not in axes)
    words = f"{one['verdict']}, {one['kind']}" + (f" ({case['dtype']} {where}{scalars})" if case else "")
    if "place" in case:
        several = re.search(r"\w (\w+): [0-9]+ of [0-9]+ elements wrong", one["reason"])
        of = f" of {several[1]}" if several else ""
        return f"{words}: at {tuple(case['place'])}{of} got {case['got']}, expected {case['expected']}"
    return f"{words}: {output.shorten_reason(re.sub(r' [(]gate seed [0-9]+[)]', '', one['reason']))}"


def short_names(names: Iterable[str], most: int = 30) -> dict[str, str]:
    """Return each name, without its middle if it is long, unless another name is then the same."""
    found = {name: name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}" for name in names}
    count = Counter(found.values())
    return {name: short if count[short] == 1 else name for name, short in found.items()}
