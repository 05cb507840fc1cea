"""``kernelzoo tune``: measures launch tables on this card, and stores those faster than the shipped ones."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kernelzoo import operations, registry, tables
from kernelzoo.cli import measuring, options, output, recording
from kernelzoo.cli.guards import MeasuringProcesses, check_gpus
from kernelzoo.cli.progress import Bar
from kernelzoo.cli.tune_tables import Json, knob_rows, list_knobs, make_tuner, print_knobs, print_trials, trial_rows
from kernelzoo.errors import KernelZooError
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.problems import problems
from kernelzoo.tables import Gpu

if TYPE_CHECKING:
    from kernelzoo.measure.tuning import TuningOutcome

TimeLimit = Annotated[float, options.option("--time-limit", "MINUTES", "Time for all tables together.", min=0.1)]
DryRun = Annotated[
    bool,
    options.flag("--dry-run", "List the knobs and the problems that each would be measured on, and measure nothing."),
]
Arch = Annotated[
    str,
    options.option("--arch", "ARCH", "With --dry-run: for a device of that architecture, such as sm_90; needs no GPU."),
]


class NothingToTuneError(KernelZooError, RuntimeError):
    """No backend on this machine has a launch table that can be measured."""


def tune(
    *,
    backend: options.Backends,
    op: options.Ops,
    dtype: options.Dtypes,
    time_limit: TimeLimit = 30.0,
    rounds: options.Rounds = 15,
    dry_run: DryRun = False,
    arch: Arch = "",
    reset: Annotated[
        bool, options.flag("--reset", "Delete the tables that are stored for this card, and measure nothing.")
    ] = False,
    device: options.Device = "",
    gpus: options.Gpus = "",
    patience: options.Patience = 180.0,
    to: options.RunRecord = None,
    json: options.Json = False,
) -> int:
    """Measure the launch tables on this card, and store those that are faster than the shipped ones.

    A launch table lists the numbers (knobs) that decide how a kernel is launched. The shipped tables were chosen on an
    H200. The command tries other values of each knob, on problems whose launches it changes. It keeps a change that is
    faster, at 95 % confidence for all changes together. It stores a table that is faster as a whole on other problems.
    No problem may be slower by more than 3 %. Dtypes are float32 and bfloat16 by default. With KERNELZOO_TABLES=shipped
    in the environment, stored tables are ignored.

    Exit status: 0, whether or not anything faster was found; 1 if a kernel was wrong or failed with some value; 2 for
    bad usage, or if there is no GPU to tune for; 130 after Ctrl-C, which keeps finished tables.
    """
    usual = ("float32", "bfloat16")
    dtypes = options.split_words(dtype) or usual
    wanted = options.split_words(op) or tuple(
        name for name, known in operations.OPERATIONS.items() if {*usual} <= {*known.dtypes}
    )
    problems("quick", wanted, dtypes)  # raises for unknown names
    backends = options.split_words(backend) or registry.backends()
    options.check_names("backend", backends, registry.backends())
    if dry_run and (reset or to is not None):
        raise options.OptionError("--dry-run changes nothing and measures nothing: leave out --reset and -o")
    if to is not None:
        measuring.check_free(to)
    if arch and not dry_run:
        raise options.OptionError("--arch simulates a device, which can't be measured; add --dry-run")
    if dry_run and arch:
        listed, absent = list[Json](), dict[str, str]()
        with Bar() as bar:
            for name in backends:
                bar.show_step(f"planning for {name}")
                listed += list_knobs(name, arch, wanted, dtypes, rounds, absent)
        if not listed:
            without = [name for name in backends if name not in absent]
            none = [f"no launch table for {' or '.join(wanted)} in {', '.join(without)}"] if without else []
            raise NothingToTuneError("; ".join([*none, *absent.values()]))
        return print_knobs(listed, arch, rounds, time_limit, absent, json)

    run = recording.Recording("kernelzoo-tune/1")
    places = check_gpus(gpus, device)
    start = partial(Guard, device, patience=patience)
    with Bar() as bar, MeasuringProcesses(lambda gpu: start(gpu=gpu), places) as guards:
        guard = guards.first
        found = guard.tables(backends, wanted)
        if found["card"] is None:
            raise NothingToTuneError(
                f"nothing to tune on {guard.about.device} ({guard.about.device_name}): launch tables are for GPUs, and "
                "none is used here; kernelzoo doctor says what is missing, --dry-run --arch sm_90 lists what would be "
                "measured"
            )
        card = tables.Gpu(**found["card"])
        if reset:
            with bar.hide_while_printing():
                return _remove_stored_tables(card, backends, options.split_words(op), json)
        if not found["declared"]:
            raise NothingToTuneError(
                "; ".join(f"{name}: {why}" for name, why in found["unavailable"].items())
                or f"no launch table in {', '.join(backends)}"
            )
        if dry_run:
            listed = []
            for one in found["declared"]:
                bar.show_step(f"planning for {one['backend']}/{one['op']}")
                listed += knob_rows(one, make_tuner(one, guard, dtypes, card.multiprocessors, rounds))
            with bar.hide_while_printing():
                return print_knobs(listed, str(card), rounds, time_limit, found["unavailable"], json)
        session = TuningSession(guards, max(1, len(places)), bar, card, rounds, time_limit * 60, run)
        return session.tune(found, dtypes, to, json=json)


@dataclass
class TuningSession:
    """A tuning run over all tables."""

    guards: MeasuringProcesses
    processes: int
    """The number of processes: 1, or the number of GPUs. Each tunes one table at a time."""
    bar: Bar
    card: Gpu
    rounds: int
    seconds: float
    """The time limit for all tables together."""
    record: recording.Recording

    def tune(self, found: Json, dtypes: Sequence[str], to: Path | None, *, json: bool) -> int:
        """Tune the tables, store and print the results, and return the exit status."""
        _check_folder(self.card)
        console, errors = output.console(), output.console(errors=True)
        done: dict[int, tuple[Json, TuningOutcome, Guard]] = {}
        stored: list[str] = []
        interrupted = False
        for name, why in found["unavailable"].items():
            with self.bar.hide_while_printing():
                errors.print(f"{name} is not tuned: {why}")
        count = len(found["declared"])
        self.bar.set_total(_STEPS * count)

        def tuned(guard: Guard, numbered: tuple[int, Json]) -> Iterator[tuple[TuningOutcome, _TableProgress]]:
            index, one = numbered
            share = (self.seconds - self.record.seconds) / math.ceil((count - index) / self.processes)
            if guard is not self.guards.first and guard.tables((), ())["card"] != asdict(self.card):  # other times
                raise options.OptionError(
                    f"{guard.about.device_name} is no {self.card}: a table is for one card; name GPUs of one model"
                )
            words = f"{one['backend']}/{one['op']}"
            tell = _TableProgress(self.bar, f"table {index + 1}/{count} {words}", self.seconds, self.record)
            processors = self.card.multiprocessors
            tuner = make_tuner(one, guard, dtypes, processors, self.rounds, time_limit=share, tell=tell)
            yield tuner.run(), tell

        try:
            tasks = enumerate(found["declared"])
            for guard, (index, one), (outcome, tell) in self.guards.run_tasks(tasks, tuned, min(self.processes, count)):
                tell.end()
                done[index] = one, outcome, guard
                if outcome.values:
                    stored.append(str(self._store_table(one, outcome)))
                words = f"{one['backend']}/{one['op']}"
                self.bar.say(f"{words}: {len(outcome.values)} of {len(one['knobs'])} knobs have a faster value")
                if not json:
                    with self.bar.hide_while_printing():
                        print_trials(one, outcome)
        except KeyboardInterrupt:
            interrupted = True
        in_order = [done[index] for index in sorted(done)]
        findings = [finding for _, outcome, _ in in_order for finding in outcome.findings]
        document = self.record.document(
            self.guards.first.about,
            [row | {"gpu": guard.about.gpu} for one, outcome, guard in in_order for row in trial_rows(one, outcome)],
            card=asdict(self.card),
            rounds=self.rounds,
            interrupted=interrupted,
            stored=sorted(set(stored)),
            findings=findings,
            unavailable=found["unavailable"],
        )
        recording.write(to, document)
        with self.bar.hide_while_printing():
            if json:
                output.print_json(document)
            else:
                for finding in findings:
                    console.print(f"WRONG {finding}")
                for file in document["stored"]:
                    console.print(f"stored {file}; new processes use it on {self.card}")
                if not stored:
                    console.print(f"nothing is faster than the shipped tables on {self.card}; nothing is stored")
            if interrupted:
                kept = "; ".join([*document["stored"], *([str(to)] if to else [])]) or "nothing"
                errors.print(f"interrupted after {len(in_order)} of {count} tables; kept: {kept}")
                return 130
        return 1 if findings else 0

    def _store_table(self, one: Json, outcome: TuningOutcome) -> Path:
        about = {"started": self.record.started, "versions": self.guards.first.about.versions, "rounds": self.rounds}
        evidence = [row for row in trial_rows(one, outcome) if row["taken"]]
        return tables.store(self.card, one["backend"], one["op"], one["declared"], outcome.values, about, evidence)


_STEPS = 100  # of the bar, for each table


class _TableProgress:
    """The progress of one launch table's tuning on the bar."""

    def __init__(self, bar: Any, words: str, seconds: float, record: recording.Recording) -> None:
        self._bar, self._words, self._seconds, self._record, self._told = bar, words, seconds, record, 0

    def __call__(self, what: str, share: float) -> None:
        left = max(0.0, self._seconds - self._record.seconds) / 60
        step = max(self._told, round(share * _STEPS))
        self._bar.begin_item(step - self._told)
        self._told = step
        self._bar.show_step(f"{self._words}: {what}; {left:.0f} min at most")

    def end(self) -> None:
        self._bar.begin_item(_STEPS - self._told)
        self._told = _STEPS


def _check_folder(card: Gpu) -> None:
    """Raise OptionError if no table can be stored, before any table is measured."""
    try:
        folder = tables.path(card, "any").parent
        tables.make_folder(folder)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder} can't be written")
    except (OSError, RuntimeError) as error:
        remedy = "set XDG_CACHE_HOME to a folder of yours"
        raise options.OptionError(f"no table can be stored: {error}; {remedy}") from error


def _remove_stored_tables(card: Gpu, backends: Sequence[str], ops: Sequence[str], json: bool) -> int:
    removed = [str(file) for name in backends if (file := tables.reset(card, name, ops)) is not None]
    if json:
        output.print_json({"card": asdict(card), "removed": removed})
    else:
        for name in removed:
            output.console().print(f"removed {', '.join(ops) or 'all tables'} from {name}")
        output.console().print(f"new processes use the shipped tables on {card}")
    return 0
