"""Measuring problem by problem in the measuring process: what ``bench`` and ``compare`` have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelzoo.cli.options import OptionError
from kernelzoo.cli.progress import Bar
from kernelzoo.files import claimed

if TYPE_CHECKING:
    from kernelzoo.measure import Problem
    from kernelzoo.measure.guard import Guard

Row = dict[str, Any]
Plan = Sequence[tuple["Problem", Sequence[str]]]
"""What is to be measured: each problem, and the ids of the implementations to measure on it."""


@dataclass(frozen=True)
class How:
    """How each problem is measured."""

    rounds: int
    cache: str
    timed: str
    """Launches (``device``) or whole calls (``call``)."""
    cross_check: bool
    label: str
    """The name of the set of shapes in the results file."""
    energy: bool = False
    """Whether that of a launch is measured too."""
    waive: Sequence[str] = ()
    """Ids that are timed although they break the contract on special values."""


def races(guard: Guard, plan: Plan, how: How, bar: Bar) -> Iterator[tuple[Problem, list[Row], list[Row]]]:
    """Measure the plan: each problem with its entries and failures, as soon as it is measured."""
    if plan and how.energy and (why := guard.unmetered()):
        raise OptionError(f"--energy can't be had here: {why}")
    if plan and how.timed != "call":
        bar.step("measuring the bandwidth of the device")
        guard.ceilings()
    bar.expect(sum(_steps(ids, how) for _, ids in plan), len(plan))
    for index, (problem, ids) in enumerate(plan, 1):
        bar.item(_steps(ids, how))
        entries, failed = guard.race(
            problem,
            ids,
            rounds=how.rounds,
            cache=how.cache,
            timed=how.timed,
            energy=how.energy,
            cross_check=how.cross_check,
            label=how.label,
            waive=how.waive,
            progress=partial(_tell, bar, problem),
        )
        yield problem, entries, failed
        bar.say(f"[{index}/{len(plan)}] {problem.id}: {len(entries)} measured, {len(failed)} without a result")


def _tell(bar: Bar, problem: Problem, stage: str, id: str) -> None:
    bar.step(f"{problem.id}: {stage} {id}")


def _steps(ids: Sequence[str], how: How) -> int:
    return len(ids) * (1 + how.rounds + how.energy + how.cross_check)


@contextmanager
def prepared(path: Path, *, resume: bool | None = None) -> Iterator[None]:
    """Check that a results file can be written, before an hour is spent on measuring, and keep other processes from
    writing to it meanwhile. ``resume`` is None for a command that can't resume.

    Raises OptionError if the file exists and is not to be resumed, or if its folder can't be written to; FileError if
    another process is writing to the file; OSError if its folder can't be made.
    """
    with claimed(path):
        _check(path, resume)
        yield


def _check(path: Path, resume: bool | None) -> None:
    if path.exists() and not resume:
        instead = "" if resume is None else "continue it with --resume, "
        raise OptionError(f"{path} exists already; {instead}name another file, or remove it")
    if not os.access(path.parent, os.W_OK):
        raise OptionError(f"no file can be written to the folder {path.parent}; name another one with -o")
