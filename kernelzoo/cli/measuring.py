"""The commands ``bench`` and ``compare`` measure one problem after another, in measuring processes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelzoo.cli import output
from kernelzoo.cli.options import OptionError, check_names
from kernelzoo.cli.progress import Bar
from kernelzoo.device import hold_value
from kernelzoo.files import check_parent_folder, hold_file_lock
from kernelzoo.measure import Problem
from kernelzoo.measure.worker_pool import SLOWER, Worker, WorkerPool, WorkerTime, measure_with_each_worker

Row = dict[str, Any]
Plan = Sequence[tuple[Problem, Sequence[str]]]
"""The problems to measure, each with the ids of its implementations."""


@dataclass(frozen=True)
class MeasuringOptions:
    """The options of each measurement. Raises UnknownNameError, or OptionError if two exclude each other."""

    rounds: int
    cache: str
    timed: str
    """``device`` to time launches, or ``call`` to time whole calls."""
    cross_check: bool
    label: str
    """The name of the set of shapes in the results file."""
    energy: bool = False
    waive: Sequence[str] = ()
    """Ids to time although they break the contract on special values."""

    def __post_init__(self) -> None:
        check_names("state of the cache", [self.cache], ("cold", "hot"))
        check_names("clock", [self.timed], ("device", "call"))
        if self.energy and self.timed == "call":
            raise OptionError("--energy measures launches, not whole calls; leave out --clock call")


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def skip_problems_after(seconds: float) -> AbstractContextManager[object]:
    """A context in which :func:`measure_plan` begins no problem after ``seconds``."""
    return hold_value(_deadline, time.monotonic() + seconds)


def measure_plan(
    workers: WorkerPool, plan: Plan, settings: MeasuringOptions, bar: Bar, slower_gpus: Collection[str] = ()
) -> Iterator[tuple[Problem, list[Row], list[Row]]]:
    """Measure the plan with all workers, and yield each problem with its results as soon as it is measured.

    ``slower_gpus``: UUIDs of GPUs whose results are flagged. If a worker can't be restarted, the others continue, and
    GuardError is raised at the end. Problems that :func:`skip_problems_after` leaves no time for are left out."""
    bar.set_total(sum(_count_steps(ids, settings) for _, ids in plan), len(plan))
    deadline = _deadline.get()

    def measure_task(worker: Worker, task: tuple[Problem, Sequence[str]]) -> tuple[list[Row], list[Row]]:
        problem, ids = task
        bar.begin_item(_count_steps(ids, settings))
        if time.monotonic() > deadline:
            return [], []
        return worker.race(
            problem, ids, **vars(settings), progress=lambda stage, id: bar.show_step(f"{problem.id}: {stage} {id}")
        )

    for index, (worker, (problem, _), (entries, failed)) in enumerate(workers.hand_out(plan, measure_task), 1):
        if not entries and not failed:
            bar.say(f"[{index}/{len(plan)}] {problem.id}: left out, for lack of time")
            continue
        for info in (entry["extra_info"] for entry in entries):
            if info["gpu"] and info["gpu"]["uuid"] in slower_gpus:
                info["flags"] = [*info["flags"], SLOWER]
        yield problem, entries, failed
        where = f" on {worker_name(worker.about.gpu, worker.about.device)}" if len(workers.workers) > 1 else ""
        bar.say(f"[{index}/{len(plan)}] {problem.id}{where}: {len(entries)} measured, {len(failed)} without a result")


def compare_cards(crew: WorkerPool, plan: Plan, settings: MeasuringOptions, bar: Bar) -> list[WorkerTime]:
    """Measure one implementation on the plan's largest problem, on every card. For a single card, return []."""
    if len(crew.workers) < 2 or not plan:
        return []
    problem, ids = max(plan, key=lambda one: one[0].bytes)
    bar.show_step(f"comparing the cards on {problem.id}")
    return measure_with_each_worker(crew, problem, ids[0], **vars(settings) | {"cross_check": False})


def describe_workers(crew: WorkerPool, card_times: Sequence[WorkerTime]) -> list[Row]:
    """Return the workers' rows of a results file: GPU, device, versions, and the result of :func:`compare_cards`."""
    checks: list[Row | None] = [asdict(check) for check in card_times] or [None] * len(crew.workers)
    return [
        {"gpu": about.gpu, "device": about.device_name, "versions": about.versions, **about.host, "check": check}
        for about, check in zip((worker.about for worker in crew.workers), checks, strict=True)
    ]


def print_card_check(workers: Sequence[Row]) -> None:
    console = output.console(errors=True)
    checks = [(worker_name(worker["gpu"], worker["device"]), worker["check"]) for worker in workers if worker["check"]]
    ratios = [check["ratio"] for _, check in checks if check["ratio"] is not None]
    if ratios and not any(check["slower"] for _, check in checks):
        console.print(f"{len(ratios)} cards agree within {max(ratios) - 1:.1%} on {checks[0][1]['problem']}")
    for name, check in checks:
        if check["median_us"] is None:
            console.print(f"{name} could not measure {check['id']} on {check['problem']}: {check['why']}")
        elif check["slower"]:
            console.print(
                f"{name} takes {check['ratio'] - 1:.1%} longer than the fastest card on {check['problem']}: its "
                "results are flagged"
            )


def worker_name(gpu: Row | None, device: str) -> str:
    """Return a worker's name: ``GPU 1``, ``GPU 1 of HOST``, or without a GPU the device."""
    if not gpu:
        return device
    return f"GPU {gpu['index']}" + (f" of {gpu['host']}" if gpu.get("host") else "")


def _count_steps(ids: Sequence[str], settings: MeasuringOptions) -> int:
    return len(ids) * (1 + settings.rounds + settings.energy + settings.cross_check)


@contextmanager
def reserve_file(path: Path, *, resume: bool | None = None) -> Iterator[None]:
    """A context that reserves a results file for this process, after checking that it can be written.

    ``resume``: whether to continue an existing file, or None if the command has no such option. Raises OptionError if
    the file exists but ``resume`` is not set, or if it can't be written. Raises FileError if its folder is missing, or
    if another process is writing the file.
    """
    check_parent_folder(path)
    with hold_file_lock(path):
        check_free(path, resume)
        yield


def check_free(path: Path, resume: bool | None = None) -> None:
    """Raise OptionError or FileError unless the file ``path`` can be written; see :func:`reserve_file`."""
    check_parent_folder(path)
    if path.exists() and not resume:
        instead = "" if resume is None else "continue it with --resume, "
        raise OptionError(f"{path} exists already; {instead}name another file, or remove it")
    if not os.access(path.parent, os.W_OK):
        raise OptionError(f"no file can be written to the folder {path.parent}; name another one with -o")
