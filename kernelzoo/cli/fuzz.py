"""``kernelzoo fuzz``: runs implementations on random cases."""

import importlib.util
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from kernelzoo.check import fuzz as engine
from kernelzoo.check.fuzz import Case
from kernelzoo.check.running import slow_to_bind
from kernelzoo.cli import guards as processes
from kernelzoo.cli import options, output, recording
from kernelzoo.cli.progress import Bar
from kernelzoo.measure.guard import Guard

_BATCH = 128
"""How many cases a process gets at once. If a kernel crashes the process, the cases before it run again."""

_ENOUGH = 20
"""After this many failures of an implementation, its remaining cases are skipped."""

_REDUCED = 3
"""How many failures of an implementation are reduced to simpler cases and printed. The JSON has all failures."""

_TRIES, _COSTLY = 400, 5
"""The maximum number of simpler cases to try per failure, and of those among them that may crash or hang."""

_COUNTED = ("right", "refused", "faults", "no_room", "undecidable", "compiled")
"""The outcomes that a process counts."""

_SLOW_TO_BIND = 100
"""The divisor of the number of cases for an implementation that takes seconds to bind a problem."""


def fuzz(
    *,
    ids: options.Ids = None,
    cases: Annotated[int, options.option("--cases", "N", "Cases for each implementation.", min=1)] = 1000,
    seed: options.Seed = None,
    case: Annotated[str | None, options.option("--case", "JSON", "Run this one case, as a failure prints it.")] = None,
    alike: Annotated[
        int, options.option("--alike", "K", "Cases that share a layout, and so a compiled kernel.", min=1)
    ] = 8,
    jobs: options.Jobs = 0,
    module: options.Modules,
    backend: options.Backends,
    op: options.Ops,
    variant: options.Variants,
    device: options.Device = "",
    gpus: options.Gpus = "",
    patience: options.Patience = 180.0,
    to: options.RunRecord = None,
    json: options.Json = False,
) -> int:
    """Try implementations on random cases: dtypes, shapes, axes, strides, offsets, values, wrong calls.

    Each case is checked against the whole contract. With Hypothesis installed, a few failures are reduced to simpler
    cases, and kept for the next run in this folder. The command that repeats each is shown. Kernels run in separate
    processes: one that crashes or hangs is a failure. Without an ID, all are tried; with a --module, those that it
    adds.

    Exit status: 0; 1 for any failure; 2 for an unknown name, or if what was asked for can't run here.
    """
    recording.check_output(to)
    run = recording.Recording("kernelzoo-fuzz/1")
    seed = secrets.randbits(32) if seed is None else seed
    names = options.split_words(op), options.split_words(backend), options.split_words(variant)
    for id in options.select_ids_before_modules(module, ids or [], *names):
        if case is not None:
            engine.parse_case(case, options.op_of(id))
    with processes.open_processes_for_ids(module, device, gpus, patience, ids or [], *names) as (guards, chosen):
        if case is not None:
            works = [_CaseSeries(id, seed, [engine.parse_case(case, options.op_of(id))]) for id in chosen]
        else:
            works = list(_draw_cases(guards.first, chosen, cases, seed, alike))
        with Bar(sum(len(work.cases) for work in works)) as bar:
            batches = sum(-(-len(work.cases) // _BATCH) for work in works)
            queue, whole = _BatchQueue(works, bar), True
            try:
                for _ in guards.run_tasks(range(batches), queue.run_next_batch, guards.count_processes(jobs, batches)):
                    pass  # a batch adds its results itself
            except KeyboardInterrupt:
                whole = queue.discard_running_batches()
    for work in works:
        # Drop failures whose reduction was interrupted.
        work.failures = [failure for failure in work.failures if failure]
    with suppress(ImportError):
        _save_failures(works)
    rows = [work.row() for work in works]
    failures = [failure for work in works for failure in work.failures]
    for failure in failures:
        failure["repeat"] = options.format_command("fuzz", failure["id"], module, device, "--case", failure["case"])
    told: dict[str, Any] = {"gpus": guards.gpus} if guards.places else {}
    told |= {} if whole else {"interrupted": True}
    document = run.document(guards.first.about, rows, seed=seed, failures=failures, **told)
    unavailable = {work.id: work.unavailable for work in works if work.unavailable}
    missing = options.why_missing(ids or [], names[1], unavailable, chosen)
    recording.write(to, document)
    if json:
        output.print_json(document | ({"error": "; ".join(missing)} if missing else {}))
    else:
        _print(works, seed)
        output.print_unavailable(unavailable, missing)
    if not whole:
        count = f"{sum(row['cases'] for row in rows)} of {sum(len(work.cases) for work in works)} cases"
        return output.report_interruption(count, to, f"--seed {seed} draws the same again")
    return 1 if failures else 2 if missing or len(unavailable) == len(rows) else 0


@dataclass
class _CaseSeries:
    """The cases that one implementation runs, and the results so far."""

    id: str
    seed: int
    cases: Sequence[Case]
    emulator: str = ""
    unavailable: str = ""
    asked: int = 0
    """The requested number of cases. ``cases`` may have fewer, and may have saved cases in addition."""
    kept: int = 0
    """How many of the first ``cases`` were saved by earlier runs."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    next: int = 0
    found: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    layouts: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.op, self.asked = options.op_of(self.id), self.asked or len(self.cases)

    def next_batch(self) -> Sequence[Case]:
        """Return the next batch of cases. It is empty if none are left, or if enough have failed."""
        if self.unavailable or len(self.failures) >= _ENOUGH:
            self.next = len(self.cases)
        batch = self.cases[self.next : self.next + _BATCH]
        self.next += len(batch)
        return batch

    def add(self, batch: Sequence[Case], found: dict[str, Any], seconds: float) -> None:
        self.found.update({name: found.get(name, 0) for name in _COUNTED})
        self.unavailable = self.unavailable or found["unavailable"]
        self.seconds += seconds
        self.layouts |= {case.layout for case in batch}

    def row(self) -> dict[str, Any]:
        """Return this implementation's row of the record. ``cases`` in it is the number of cases that ran."""
        backend, op, variant = self.id.split("/")
        failed = len(self.failures)
        return {
            "id": self.id,
            "backend": backend,
            "op": op,
            "variant": variant,
            "emulator": self.emulator,
            "cases": failed + sum(self.found[name] for name in ("right", "refused", "faults", "no_room")),
            "asked": self.asked,
            **{name: self.found[name] for name in _COUNTED},
            "failed": failed,
            "layouts": len(self.layouts),
            "seed": self.seed,
            "seconds": round(self.seconds, 2),
            "unavailable": self.unavailable,
        }


def _draw_cases(guard: Guard, ids: Sequence[str], count: int, seed: int, alike: int) -> Iterator[_CaseSeries]:
    """Yield the cases of each implementation. Ids with the same operation and size limit get the same cases."""
    drawn: dict[tuple[str, int], list[Case]] = {}
    for id in ids:
        about = guard.find_fuzzing_limits(id)
        op = options.op_of(id)
        if about["unavailable"]:
            yield _CaseSeries(id, seed, (), unavailable=about["unavailable"])
            continue
        key = op, about["elements"]
        if key not in drawn:
            drawn[key] = engine.draw(op, count, seed, about["elements"], alike)
        few = max(engine.GROUP, count // _SLOW_TO_BIND) if slow_to_bind(id) else count
        kept = []
        with suppress(ImportError):
            kept = engine.stored_failures(id)
        yield _CaseSeries(id, seed, [*kept, *drawn[key][:few]], emulator=about["emulator"], asked=count, kept=len(kept))


def _save_failures(works: Sequence[_CaseSeries]) -> None:
    """Save printed failures for later runs, and delete saved cases that pass. Raises ImportError without Hypothesis."""
    for work in works:
        for failure in work.failures[:_REDUCED]:
            engine.update_failure(work.id, engine.parse_case(failure["case"], work.op), failed=True)
        failed = {failure["found"] for failure in work.failures}
        for case in work.cases[: min(work.kept, work.next)] if not work.unavailable else ():
            if str(case) not in failed:
                engine.update_failure(work.id, case, failed=False)


class _BatchQueue:
    """A queue of batches for several processes. A process takes batches of one implementation until none are left."""

    def __init__(self, works: Sequence[_CaseSeries], bar: Bar) -> None:
        self._works, self._bar = works, bar
        self._lock, self._ended = threading.Lock(), False
        self._current: dict[Guard, _CaseSeries] = {}

    def discard_running_batches(self) -> bool:
        """Discard the results of batches that are still running. Always returns False: not all batches are done."""
        with self._lock:
            self._ended = True
        return False

    def run_next_batch(self, guard: Guard, unused_index: int) -> tuple[()]:
        """Run the next batch in the guard's process. If no batch is left, do nothing."""
        with self._lock:
            work = self._current.get(guard)
            batch = work.next_batch() if work is not None else ()
            while not batch:  # take an implementation that has not begun, or the one with most cases left
                left = [work for work in self._works if work.next < len(work.cases)]
                if not left:
                    return ()
                work = self._current[guard] = max(left, key=lambda work: (work.next == 0, len(work.cases) - work.next))
                batch = work.next_batch()
        assert work is not None
        self._check_batch(guard, work, batch)
        with self._lock:
            self._bar.begin_item(len(batch))
            self._bar.show_step(work.id)
        return ()

    def _check_batch(self, guard: Guard, work: _CaseSeries, batch: Sequence[Case]) -> None:
        started = time.monotonic()
        found = guard.fuzz(work.id, [str(case) for case in batch])
        seconds = time.monotonic() - started
        with self._lock:
            if self._ended:
                return
            work.add(batch, found, seconds)
        for number, words in found["wrong"]:
            case, words_of = batch[number], {str(batch[number]): words}
            costly = _broke_process(words)
            with self._lock:
                place = len(work.failures)
                if self._ended:
                    return
                work.failures.append({})
            left = [_COSTLY if costly else _TRIES]

            def still_fails(candidate: Case, words_of: dict[str, str] = words_of, left: list[int] = left) -> bool:
                again = guard.fuzz(work.id, [str(candidate)])["wrong"] if left[0] > 0 else ()
                words_of |= {str(candidate): words for _, words in again}
                left[0] -= any(_broke_process(words) for _, words in again)
                return bool(again)

            reducible = place < (1 if costly else _REDUCED)
            simple = case
            with suppress(ImportError):
                simple = engine.reduce_case(work.op, case, still_fails, _TRIES) if reducible else case
            work.failures[place] = {
                "id": work.id,
                "reason": words_of[str(simple)],
                "case": str(simple),
                "found": str(case),
                "found_reason": words,
                **({"gpu": guard.about.gpu} if guard.about.gpu else {}),
            }


def _broke_process(words: str) -> bool:
    """Whether a failure crashed or hung the process, according to the guard's message ``words``."""
    return words.startswith(("the process ", "hung"))


def _print(works: Sequence[_CaseSeries], seed: int) -> None:
    console = output.console()
    table = output.make_table(
        "implementation", ">cases", ">right", ">refused", ">errors", ">failed", ">layouts", ">s", ""
    )
    for work in works:
        row = work.row()
        if work.unavailable:
            continue
        words = f"in {row['emulator']}" if row["emulator"] else ""
        words += f"{row['no_room']} had no room" if row["no_room"] else ""
        words += f"{row['undecidable']} undecidable: the reference exceeds its bounds" if row["undecidable"] else ""
        words += f"{len(work.cases)} of {work.asked}: slow to bind" if work.asked > len(work.cases) else ""
        counts = (str(row[name]) for name in ("cases", "right", "refused", "faults", "failed", "layouts"))
        table.add_row(work.id, *counts, f"{row['seconds']:.1f}", words)
    if table.rows:
        output.show(console, table)
    for work in works:
        shown = list({failure["case"]: failure for failure in work.failures[:_REDUCED]}.values())
        if shown:
            how = "the first reduced" if importlib.util.find_spec("hypothesis") else engine.NEEDED
            console.print(f"\n{work.id}: {len(work.failures)} failures, {how}", style="red")
        for failure in shown:
            console.print(f"  case   {_describe_case(failure['case'], work.op)}")
            console.print(f"  found  {output.shorten_reason(failure['reason'])}")
            console.print(f"  repeat {failure['repeat']}")
        if len(work.failures) > len(shown):
            console.print(f"  and {len(work.failures) - len(shown)} more; --json has them all")
    total = sum(work.row()["cases"] for work in works)
    failed = sum(len(work.failures) for work in works)
    console.print(f"\n{total} cases, {failed} failed; seed {seed}")


def _describe_case(text: str, op: str) -> str:
    """Describe how a case differs from a plain call on a contiguous tensor."""
    case = engine.parse_case(text, op)
    told = [f"{case.dtype} {'x'.join(map(str, case.shape)) or 'scalar'}"]
    told += [f"dim={case.dim}"] if case.dim is not None else []
    told += [f"{name}={value}" for name, value in (*case.sizes, *case.scalars)]
    told += [f"strides {case.x.strides}"] if case.x.strides != engine.dense_strides(case.shape) else []
    told += [f"starts {case.x.offset} elements after a 16-byte boundary"] if case.x.offset else []
    told += ["keepdim"] if case.keepdim else []
    told += [f"out with strides {out.strides}" for out in case.outs]
    told.append(f"values {case.values!r}")
    told += [f"{name} at element {place}" for name, place in case.specials]
    told += ["x lazily negated"] if case.negated else []
    for companion in case.companions:
        told.append(" ".join([companion.name, *(f"{name} {value!r}" for name, value in companion.to_json().items())]))
    told += [f"a wrong call: {case.fault}"] if case.fault else []
    return ", ".join(told)
