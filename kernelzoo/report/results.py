"""Benchmark results: rows, the groups that may share a table, and selections of them."""

import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from kernelzoo import registry
from kernelzoo.errors import KernelZooError
from kernelzoo.measure.energy import Energy
from kernelzoo.measure.measurement import BREAKS
from kernelzoo.report import notes

BASELINE = f"{registry.BASELINE}/{registry.BASELINE_VARIANT}"
"""The default baseline: what a user would call without kernelzoo."""

CLOCKS = ("device", "wall", "call", "submit")
CACHES = ("cold", "hot")
OUTCOMES = ("refused", "wrong", "failed")


class ResultsError(KernelZooError, ValueError):
    """A results file, or a document with results, is invalid."""


@dataclass(frozen=True, order=True)
class Problem:
    """The input of a launch: shape, dtype, reduced axis and scalars. Tables sort problems by rank, axis and size."""

    rank: int = field(init=False, repr=False)
    dim: int
    """The index of the reduced axis; never negative."""
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[tuple[str, int], ...] = ()
    """All axes with their sizes, for an operation that does not work by rows."""
    scalars: tuple[tuple[str, Any], ...] = ()
    """Scalars that differ from their default."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", len(self.shape))
        key = self.dim, self.shape, self.dtype, self.axes, self.scalars
        object.__setattr__(self, "_hash", hash(key))  # computed once: a page of 20,000 rows asks a million times

    def __hash__(self) -> int:
        return int(self.__dict__["_hash"])

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """Return the problem of an entry of a results file."""
        axes, scalars = (tuple(entry.get(key, {}).items()) for key in ("axes", "scalars"))
        shape = tuple(entry["shape"])
        return cls(entry["dim"] % len(shape), shape, entry["dtype"], axes, scalars)

    def __str__(self) -> str:
        said = "".join(f" {name}={value}" for name, value in self.scalars)
        if self.axes:
            return f"({', '.join(f'{name}={size}' for name, size in self.axes)}){said}"
        last = self.dim == len(self.shape) - 1
        shape = f"{', '.join(map(str, self.shape))}{',' * (len(self.shape) == 1)}"
        return f"({shape}){'' if last else f' dim {self.dim}'}{said}"

    @property
    def title(self) -> str:
        """The dtype, and the problem as text."""
        return f"{self.dtype} {self}"

    @property
    def reduced_length(self) -> int:
        """The length of the reduced axis."""
        return self.shape[self.dim]


@dataclass(frozen=True)
class Run:
    """One results file: where and when its rows were measured."""

    file: str
    date: str
    commit: str
    again: tuple[tuple[str, str], ...] = ()
    """Backends that were measured again later (bench/again.py): names, and a text with the date and torch's time."""

    @property
    def date_to_minute(self) -> str:
        """The date and time without seconds."""
        return self.date.replace("T", " ")[:16] or "unknown"


@dataclass(frozen=True)
class Result:
    """The outcome of one implementation on one problem."""

    run: Run
    backend: str
    op: str
    variant: str
    problem: Problem

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"

    @property
    def name(self) -> str:
        """The id without the operation."""
        return f"{self.backend}/{self.variant}"


@dataclass(frozen=True)
class Row(Result):
    """One implementation timed on one problem."""

    form: str
    """The id of the form that ran, for example the one that ``auto`` chose. Empty if unknown."""
    seconds: float
    """Median time of one launch."""
    bytes: int
    """The bytes that the operation must move. The implementation may move more."""
    device: str
    clock: str
    """``"device"``, ``"wall"``, ``"call"`` for whole calls, or ``"submit"`` for the host's submission. The last two do
    not time a kernel."""
    clock_detail: str
    submit_us: float | None
    """The host's time to submit one launch."""
    ceiling_gb_per_s: float | None
    """The best bandwidth measured in the same run: of a copy or of a read, whichever is more like the operation."""
    floor_us: float | None
    """The time of the smallest launch."""
    copy_us: float | None
    """The time of a copy of the same data in the same rounds. None if the operation writes less than it reads."""
    of_limit: float | None
    """The device's limit divided by the time; None if no ceiling was measured, or if the cache is hot."""
    shape_set: str
    versions: tuple[tuple[str, str], ...]
    samples: int
    times: tuple[float, ...] = field(repr=False)
    """Every sample in seconds, in the order of the rounds; empty if not in the file."""
    cache: str
    """``"cold"``, or ``"hot"`` for the same data in every launch."""
    race: str
    """Rows with the same file and race were measured in the same rounds, so their samples are paired."""
    repeated_rounds: int
    """The number of rounds of the race that were repeated because the device was disturbed."""
    first_call_ms: float | None
    cupti_us: float | None
    """The time of one launch by the profiler's clock."""
    flags: tuple[str, ...]
    """Caveats of this time, for example that the host can't keep up."""
    breaks: str
    """How it breaks the contract, if it was nevertheless timed on request (``--waive``); else empty."""
    condition: tuple[tuple[str, str | float], ...]
    """The device's state around the race (clocks, temperature), by name. A name may occur twice."""
    energy: Energy | None = None
    """None if not measured."""
    same_bits: bool | None = None
    """Whether the same inputs gave the same bits again. Here, and in ``batch_invariant``, None: not checked."""
    batch_invariant: bool | None = None
    """Whether a row alone had the same bits as among others."""
    gpu: str = ""
    """The UUID of the card; empty if not in the file."""
    beside: str = ""
    """The card whose rows it joins, if it was measured again on another card of the same model; else empty."""
    table: str = ""
    """The launch table with which it was bound; empty if not in the file."""
    differs: tuple[str, ...] = ()
    """Texts on where the file's summary contradicts its samples. The row's numbers are from the samples."""

    @property
    def card(self) -> str:
        """The UUID of the GPU whose rows are compared with this row: ``beside`` if it is not empty, else ``gpu``."""
        return self.beside or self.gpu

    @property
    def chosen_form(self) -> str:
        """The name of the form that ran, for example the choice of ``auto``; empty if it is this implementation."""
        return "" if self.form == self.id else self.form.rpartition("/")[2]

    @property
    def marks(self) -> list[str]:
        """The marks of the row's flags; see :mod:`kernelzoo.report.notes`."""
        return notes.marks([*([BREAKS] if self.breaks else []), *self.flags])

    @property
    def can_be_best(self) -> bool:
        """Whether it may be shown as the best: it keeps the contract, and its measurement was not disturbed."""
        return not self.marks

    @property
    def microseconds(self) -> float:
        return self.seconds * 1e6

    @property
    def gb_per_s(self) -> float:
        return self.bytes / self.seconds / 1e9

    @property
    def j_per_gb(self) -> float | None:
        """The energy of a launch in J per GB that the operation must move."""
        return None if self.energy is None else 1e6 * self.energy.launch_mj / self.bytes


@dataclass(frozen=True)
class Failure(Result):
    """An implementation without a time on one problem, and why."""

    outcome: str
    """``"refused"``: it can't take the problem, which is no fault. ``"wrong"``: its result is wrong. ``"failed"``: it
    raised an error, crashed or hung."""
    reason: str


@dataclass(frozen=True)
class Selection:
    """The rows of one operation in a group, for one dtype or for all. Tables and figures show a selection."""

    rows: tuple[Row, ...]
    baseline: str = BASELINE

    @cached_property
    def problems(self) -> list[Problem]:
        return sorted({row.problem for row in self.rows})

    @cached_property
    def names(self) -> list[str]:
        """Implementation names: the baseline, the rest of its backend, then others by backend, with ``auto`` first."""
        names = {(row.backend, row.variant) for row in self.rows}
        first, _, variant = self.baseline.partition("/")
        order = sorted(names, key=lambda n: (n != (first, variant), n[0] != first, n[0], n[1] != "auto", n[1]))
        return [f"{backend}/{variant}" for backend, variant in order]

    @cached_property
    def rows_by_cell(self) -> Mapping[tuple[Problem, str], Row]:
        """Each row by its problem and its implementation's name, which are a cell's place in a table."""
        return {(row.problem, row.name): row for row in self.rows}

    def of(self, name: str) -> list[Row]:
        """Return the rows of one implementation, in the order of the problems."""
        return [self.rows_by_cell[problem, name] for problem in self.problems if (problem, name) in self.rows_by_cell]

    def ratio(self, row: Row) -> float | None:
        """Return the row's time divided by the baseline's on the same problem. None if the baseline has none there."""
        base = self.rows_by_cell.get((row.problem, self.baseline))
        return None if base is None else row.seconds / base.seconds

    def energy_ratio(self, row: Row) -> float | None:
        """Return the row's energy divided by the baseline's on the same problem. None if either is unknown."""
        base = self.rows_by_cell.get((row.problem, self.baseline))
        if row.energy is None or base is None or base.energy is None:
            return None
        return row.energy.launch_mj / base.energy.launch_mj

    def mean_energy_ratio(self, name: str) -> float | None:
        return geometric_mean(self.energy_ratio(row) for row in self.of(name))

    def mean_ratio(self, name: str) -> float | None:
        return geometric_mean(self.ratio(row) for row in self.of(name))

    def mean_share_of_limit(self, name: str) -> float | None:
        return geometric_mean(row.of_limit for row in self.of(name))

    def median_submit_us(self, name: str) -> float | None:
        return median(row.submit_us for row in self.of(name))

    @property
    def ceiling_gb_per_s(self) -> float | None:
        """The measured bandwidth in GB/s: the median of :attr:`Row.ceiling_gb_per_s`."""
        return median(row.ceiling_gb_per_s for row in self.rows)

    def sweep(self) -> list[Problem]:
        """Return the longest sweep over columns: the largest set of matrices with the same row count and dtype."""
        return max(self._by_row_count().values(), key=len, default=[])

    @cached_property
    def is_sweep(self) -> bool:
        """Whether a curve over columns represents the results: it has enough points, and at least half the problems."""
        points = len(self.sweep())
        return points >= SWEEP and 2 * points >= len(self.problems)

    def short_table_problems(self) -> list[Problem]:
        """Return problems for a short table: of a long sweep, powers of two and the ends, or evenly spaced problems."""
        hidden: set[Problem] = set()
        for problems in self._by_row_count().values():
            if len(problems) > READABLE:
                ends = problems[0], problems[-1]
                shown = {p for p in problems if p in ends or p.shape[1].bit_count() == 1}
                if not READABLE // 2 <= len(shown) <= READABLE:
                    last = len(problems) - 1
                    shown = {problems[round(i * last / (READABLE - 1))] for i in range(READABLE)}
                hidden.update(set(problems) - shown)
        return [problem for problem in self.problems if problem not in hidden]

    def _by_row_count(self) -> dict[tuple[int, str], list[Problem]]:
        """Group the matrices that are reduced along axis 1, as in a sweep, by row count and dtype."""
        found: dict[tuple[int, str], list[Problem]] = {}
        for problem in self.problems:
            if len(problem.shape) == 2 and problem.dim == 1 and not problem.axes:
                found.setdefault((problem.shape[0], problem.dtype), []).append(problem)
        return found


@dataclass(frozen=True)
class ComparableRows:
    """The rows of one device, clock and cache state. Rows of two groups never share a table or a figure."""

    device: str
    clock: str
    cache: str
    rows: tuple[Row, ...]
    repeated: int
    """The number of rows that were left out because a newer run measured the same."""
    baseline: str = BASELINE

    @property
    def label(self) -> str:
        return f"{self.device}, {self.clock} clock" + (", hot cache" if self.cache == "hot" else "")

    def runs(self) -> list[tuple[Run, list[Row]]]:
        """Return each file with its rows."""
        found: dict[Run, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.run, []).append(row)
        return list(found.items())

    def operations(self) -> list[str]:
        return sorted({row.op for row in self.rows})

    def dtypes(self, op: str) -> list[str]:
        return sorted({row.problem.dtype for row in self.rows if row.op == op})

    def select(self, op: str, dtype: str | None = None) -> Selection:
        return Selection(
            tuple(row for row in self.rows if row.op == op and (dtype is None or row.problem.dtype == dtype)),
            self.baseline,
        )


SWEEP = 6  # the fewest points of a curve
READABLE = 10  # the most lines of one sweep in a table, which then fits one screen with the other shapes


Counters = tuple[tuple[str, str], ...]
"""A profiler's counts of one launch (registers, blocks, bytes), by name."""


@dataclass(frozen=True)
class Results:
    """The contents of results files, by device, clock and cache state."""

    groups: tuple[ComparableRows, ...]
    failed: tuple[Failure, ...] = ()
    """All failures, in the order of the files. A file does not say to which group a failure belongs."""
    baseline: str = BASELINE
    counters: Mapping[tuple[str, str, str], Counters] = field(default_factory=dict)
    """A profiler's counts by device, id and problem as text (``float32 (8, 8)``). Only the page shows them."""

    def relative_to(self, baseline: str) -> Self:
        """Return the results with another baseline, ``backend/variant``. Raises ResultsError if that has no results."""
        known = {row.name for group in self.groups for row in group.rows}
        if baseline not in known:
            raise ResultsError(f"no results of {baseline!r} to take ratios to; known: {', '.join(sorted(known))}")
        return replace(
            self, groups=tuple(replace(group, baseline=baseline) for group in self.groups), baseline=baseline
        )

    def summary_contradictions(self) -> list[str]:
        """Return a line for each row whose file's summary contradicts its samples."""
        return [
            f"{row.run.file}: {row.id} on {row.problem.title}: {'; '.join(row.differs)}"
            for group in self.groups
            for row in group.rows
            if row.differs
        ]

    def slugs(self) -> list[str]:
        """Return a name for each group, for links and files. A name does not change if other results are added."""
        made: list[str] = []
        for group in self.groups:
            slug = re.sub(r"[^a-z0-9]+", "-", group.label.lower()).strip("-")
            while slug in made:
                slug += "-2"
            made.append(slug)
        return made


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values, or None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the known values, or None if there are none."""
    known = [value for value in values if value is not None]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None
