"""Measuring through the guard, problem by problem: what ``bench`` and ``compare`` have in common."""

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
"""What is to be measured: each problem, and the ids of those that race on it."""


@dataclass(frozen=True)
class How:
    """How each problem is measured."""

    rounds: int
    cache: str
    cross_check: bool
    label: str
    """What the results file calls the set of shapes."""
    waive: Sequence[str] = ()
    """Ids that are timed although they break the contract on special values."""


def races(guard: Guard, plan: Plan, how: How, bar: Bar) -> Iterator[tuple[Problem, list[Row], list[Row]]]:
    """Each problem with its entries and failures, as soon as it is measured."""
    for index, (problem, ids) in enumerate(plan, 1):
        bar.item(_steps(ids, how))
        entries, failed = guard.race(
            problem,
            ids,
            rounds=how.rounds,
            cache=how.cache,
            cross_check=how.cross_check,
            label=how.label,
            waive=how.waive,
            progress=partial(_tell, bar, problem),
        )
        yield problem, entries, failed
        bar.say(f"[{index}/{len(plan)}] {problem.id}: {len(entries)} measured, {len(failed)} without a result")


def _tell(bar: Bar, problem: Problem, stage: str, id: str) -> None:
    bar.step(f"{problem.id}: {stage} {id}")


def steps(plan: Plan, how: How) -> int:
    """Steps that the whole plan is worth on a bar."""
    return sum(_steps(ids, how) for _, ids in plan)


def _steps(ids: Sequence[str], how: How) -> int:
    return len(ids) * (1 + how.rounds + how.cross_check)


@contextmanager
def prepared(path: Path, *, resume: bool | None = None) -> Iterator[None]:
    """Make sure that results can be kept there, before an hour is spent on them, and keep other processes from writing
    there meanwhile. ``resume`` is None where none can.

    Raises OptionError if a file is there that would be written over, or if the folder takes none; FileError if another
    process is writing there; OSError if it can't be made.
    """
    with claimed(path):
        _check(path, resume)
        yield


def _check(path: Path, resume: bool | None) -> None:
    if path.exists() and not resume:
        instead = "" if resume is None else "--resume goes on with it; "
        raise OptionError(f"{path} is there already; {instead}name another file, or remove it")
    if not os.access(path.parent, os.W_OK):
        raise OptionError(f"no file can be written in {path.parent}; name another with -o")
