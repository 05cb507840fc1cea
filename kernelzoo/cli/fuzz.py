"""``kernelzoo fuzz``: cases that nobody thought of, over every implementation or some."""

from __future__ import annotations

import os
import secrets
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelzoo.cli import options, output, recording
from kernelzoo.cli.bench import Variants

if TYPE_CHECKING:
    from kernelzoo.check.fuzz import Case
    from kernelzoo.cli.progress import Bar
    from kernelzoo.measure.guard import Guard

_BATCH = 128
"""Cases that a process is given at a time: what is lost, and run again, where a kernel breaks it."""

_ENOUGH = 20
"""Failures of one implementation after which the rest of its cases is left."""

_REDUCED = 3
"""Failures of one implementation that are made simpler; the others are told as they were made up."""

_TRIES, _COSTLY = 400, 5
"""Simpler cases to try for one failure, and how many of them may cost a process, for one such failure."""

_SLOW_TO_BIND = 100
"""How many times fewer cases are made up for what takes seconds to bind each problem."""


def fuzz(
    *,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids or globs such as 'triton/softmax/*'.")
    ] = None,
    cases: Annotated[int, typer.Option("--cases", metavar="N", min=1, help="Cases for each implementation.")] = 1000,
    seed: options.Seed = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="JSON", help="Run this one case, as a failure was printed.")
    ] = None,
    alike: Annotated[
        int, typer.Option("--alike", metavar="K", min=1, help="Cases that share a layout, and what is compiled for it.")
    ] = 8,
    jobs: options.Jobs = 0,
    module: options.Modules,
    backend: options.Backends,
    op: options.Ops,
    variant: Variants,
    device: options.Device = "",
    patience: options.Patience = 180.0,
    to: options.RunRecord = None,
    json: options.Json = False,
) -> int:
    """Try implementations on cases that are made up: dtypes, shapes, axes, strides, offsets, values, errors.

    Each case is held to the whole contract. One that fails is made simpler and printed as the command that repeats it.
    They run in processes of their own: one that crashes or hangs is a failure. Without an ID, all are tried; with a
    --module, those that it adds.

    Exit status: 0; 1 for any failure; 2 for an unknown name, or where nothing could be tried.
    """
    from kernelzoo import registry
    from kernelzoo.check import fuzz as engine
    from kernelzoo.cli.guards import Guards
    from kernelzoo.cli.progress import Bar
    from kernelzoo.measure.guard import Guard

    recording.check_output(to)
    run = recording.Recording("kernelzoo-fuzz/1")
    seed = secrets.randbits(32) if seed is None else seed
    modules = options.check_modules(module)
    with Guards(lambda: Guard(device, modules, patience=patience)) as guards:
        about = guards.first.about
        known = set(about.summaries)
        if module and not ids:
            known -= {i.id for i in registry.implementations()}  # no module is ever run in this process
        chosen = options.select(known, ids or [], options.words(op), options.words(backend), options.words(variant))
        if case is not None:
            works = [_Work(id, seed, [engine.parse(case, id.split("/")[1])]) for id in chosen]
        else:
            works = list(_works(guards.first, chosen, cases, seed, alike))
        with Bar(sum(len(work.cases) for work in works)) as bar:
            batches = sum(-(-len(work.cases) // _BATCH) for work in works)
            guards.run(_Share(works, guards.lock, bar).step, min(jobs or len(os.sched_getaffinity(0)), batches))
    rows = [work.row() for work in works]
    document = run.document(about, rows, seed=seed, failures=[failure for work in works for failure in work.failures])
    if to is not None:
        recording.write(to, document)
    if json:
        output.emit(document)
    else:
        _print(works, modules, seed)
    return 1 if any(row["failed"] for row in rows) else 0 if any(not row["unavailable"] for row in rows) else 2


class _Work:
    """The cases of one implementation, and what came of them so far."""

    def __init__(self, id: str, seed: int, cases: Sequence[Case], *, emulator: str = "", unavailable: str = "") -> None:
        self.id, self.cases = id, cases
        self.op = id.split("/")[1]
        self.failures: list[dict[str, Any]] = []
        self.next = 0
        self.unavailable = unavailable
        self._emulator, self._seed = emulator, seed
        self._found = dict.fromkeys(("right", "refused", "faults", "no_room", "compiled"), 0)
        self._seconds = 0.0
        self._layouts = set[object]()

    def take(self) -> Sequence[Case]:
        """The next batch; none if nothing is left, or enough has failed."""
        if self.unavailable or len(self.failures) >= _ENOUGH:
            self.next = len(self.cases)
        batch = self.cases[self.next : self.next + _BATCH]
        self.next += len(batch)
        return batch

    def add(self, batch: Sequence[Case], found: dict[str, Any], seconds: float) -> None:
        """Take up what came of a batch."""
        for name in self._found:
            self._found[name] += found.get(name, 0)
        self.unavailable = self.unavailable or found["unavailable"]
        self._seconds += seconds
        self._layouts |= {(case.dtype, case.shape, case.x, case.dim, case.keepdim, case.out) for case in batch}

    def row(self) -> dict[str, Any]:
        """A row of the record. ``cases`` are those that were run."""
        backend, op, variant = self.id.split("/")
        failed = len(self.failures)
        return {
            "id": self.id,
            "backend": backend,
            "op": op,
            "variant": variant,
            "emulator": self._emulator,
            "cases": failed + sum(self._found[name] for name in ("right", "refused", "faults", "no_room")),
            **self._found,
            "failed": failed,
            "layouts": len(self._layouts),
            "seed": self._seed,
            "seconds": round(self._seconds, 2),
            "unavailable": self.unavailable,
        }


def _works(guard: Guard, ids: Sequence[str], count: int, seed: int, alike: int) -> Iterator[_Work]:
    """The same cases for all implementations of an operation that run in the same kind of place."""
    from kernelzoo.check import fuzz as engine
    from kernelzoo.check.running import slow_to_bind

    drawn: dict[tuple[str, int], list[Case]] = {}
    for id in ids:
        about = guard.largest(id)
        op = id.split("/")[1]
        if about["unavailable"]:
            yield _Work(id, seed, (), unavailable=about["unavailable"])
            continue
        key = op, about["elements"]
        if key not in drawn:
            drawn[key] = engine.draw(op, count, seed, about["elements"], alike)
        few = max(engine.GROUP, count // _SLOW_TO_BIND) if slow_to_bind(id) else count
        yield _Work(id, seed, drawn[key][:few], emulator=about["emulator"])


class _Share:
    """Hands the work out, batch by batch: to one process all of one implementation, as long as there are others."""

    def __init__(self, works: Sequence[_Work], lock: threading.Lock, bar: Bar) -> None:
        self._works, self._lock, self._bar = works, lock, bar
        self._of: dict[Guard, _Work] = {}

    def step(self, guard: Guard) -> bool:
        """Run a batch in that process; whether there was one."""
        with self._lock:
            work = self._of.get(guard)
            batch = work.take() if work is not None else ()
            while not batch:  # the process changes over to what nobody has begun, or else to what has most left
                left = [work for work in self._works if work.next < len(work.cases)]
                if not left:
                    return False
                work = self._of[guard] = max(left, key=lambda work: (work.next == 0, len(work.cases) - work.next))
                batch = work.take()
        assert work is not None
        self._try(guard, work, batch)
        with self._lock:
            self._bar.item(len(batch))
            self._bar.step(work.id)
        return True

    def _try(self, guard: Guard, work: _Work, batch: Sequence[Case]) -> None:
        """Run a batch, and make simpler what fails."""
        from kernelzoo.check import fuzz as engine

        started = time.monotonic()
        found = guard.fuzz(work.id, [str(case) for case in batch])
        seconds = time.monotonic() - started
        with self._lock:
            work.add(batch, found, seconds)
        for number, words in found["wrong"]:
            case, words_of = batch[number], {str(batch[number]): words}
            costly = _costly(words)
            with self._lock:
                place = len(work.failures)
                work.failures.append({})
            left = [_COSTLY if costly else _TRIES]

            def fails(candidate: Case, words_of: dict[str, str] = words_of, left: list[int] = left) -> bool:
                again = guard.fuzz(work.id, [str(candidate)])["wrong"] if left[0] > 0 else ()
                words_of |= {str(candidate): words for _, words in again}
                left[0] -= any(_costly(words) for _, words in again)
                return bool(again)

            reducible = place < (1 if costly else _REDUCED)
            simple = engine.reduce(work.op, case, fails, _TRIES) if reducible else case
            work.failures[place] = {
                "id": work.id,
                "reason": words_of[str(simple)],
                "case": str(simple),
                "found": str(case),
                "found_reason": words,
            }


def _costly(words: str) -> bool:
    """Whether a failure took the process with it, by the words of the guard."""
    return words.startswith(("the process ", "hung"))


def _print(works: Sequence[_Work], modules: Sequence[str], seed: int) -> None:
    console = output.console()
    table = output.table("implementation", ">cases", ">right", ">refused", ">errors", ">failed", ">layouts", ">s", "")
    absent: dict[str, list[str]] = {}
    for work in works:
        row = work.row()
        if work.unavailable:
            absent.setdefault(work.unavailable, []).append(work.id)
            continue
        words = f"in {row['emulator']}" if row["emulator"] else ""
        words += f"{row['no_room']} had no room" if row["no_room"] else ""
        counts = (str(row[name]) for name in ("cases", "right", "refused", "faults", "failed", "layouts"))
        table.add_row(work.id, *counts, f"{row['seconds']:.1f}", words)
    if table.row_count:
        output.show(console, table)
    for reason, without in absent.items():
        console.print(f"{output.some(without)} can't be tried here: {reason}", style="dim")
    for work in works:
        for failure in work.failures:
            console.print(f"\n{work.id}: {' '.join(failure['reason'].split())}", style="red")
            console.print(_again(work.id, failure["case"], modules))
    total = sum(work.row()["cases"] for work in works)
    failed = sum(len(work.failures) for work in works)
    console.print(f"\n{total} cases, {failed} failed; seed {seed}")


def _again(id: str, case: str, modules: Sequence[str]) -> str:
    """The command that runs one case again."""
    named = [word for module in modules for word in ("--module", module)]
    return shlex.join(["kernelzoo", "fuzz", id, *named, "--case", case])
