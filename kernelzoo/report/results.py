"""Read benchmark results: the JSON of pytest-benchmark with the ``extra_info`` that the benches of kernelzoo write.

Everything that a report needs is checked here, once, so that the tables and figures can trust it.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelzoo.errors import KernelZooError

BASELINE = "torch", "eager"
"""Backend and variant that every ratio is taken to: what a torch user has without kernelzoo."""

CLOCKS = ("device", "wall", "submit")


class ResultsError(KernelZooError, ValueError):
    """A results file, or a document to be refreshed from one, is not what it should be."""


@dataclass(frozen=True, order=True)
class Problem:
    """What one launch works on. Ordered by rank, then axis, then size: the order of every table."""

    rank: int = field(init=False, repr=False)
    dim: int
    """Never negative."""
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", len(self.shape))

    def __str__(self) -> str:
        last = self.dim == len(self.shape) - 1
        return f"({', '.join(map(str, self.shape))}{',' * (len(self.shape) == 1)}){'' if last else f' dim {self.dim}'}"

    @property
    def is_matrix(self) -> bool:
        """Whether it is rows by columns, reduced along the columns, as the points of a sweep are."""
        return len(self.shape) == 2 and self.dim == 1


@dataclass(frozen=True)
class Run:
    """One results file: where and when its rows were measured."""

    file: str
    date: str
    commit: str


@dataclass(frozen=True)
class Row:
    """One implementation timed on one problem."""

    run: Run
    backend: str
    op: str
    variant: str
    problem: Problem
    seconds: float
    """Median time of one launch."""
    bytes: int
    """What the operation must move, whatever the implementation does move."""
    device: str
    clock: str
    """``"device"``, ``"wall"``, or ``"submit"``: the host's time to submit a call, which says nothing of a kernel."""
    clock_detail: str
    submit_us: float | None
    """The host's time to submit one launch."""
    ceiling_gb_per_s: float | None
    """The fastest that this device moved bytes in the same run: a copy or a read, as the operation does."""
    floor_us: float | None
    """The time of the smallest launch."""
    shape_set: str
    versions: tuple[tuple[str, str], ...]
    samples: int

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"

    @property
    def name(self) -> str:
        """The id where the operation is known from the place."""
        return f"{self.backend}/{self.variant}"

    @property
    def microseconds(self) -> float:
        return self.seconds * 1e6

    @property
    def gb_per_s(self) -> float:
        return self.bytes / self.seconds / 1e9

    @property
    def of_limit(self) -> float | None:
        """Share of the limit reached: (floor + bytes / ceiling) / time; None where no ceiling was measured.

        Where no floor was measured it counts as zero, which makes the share smaller, never larger.
        """
        if self.ceiling_gb_per_s is None:
            return None
        return ((self.floor_us or 0.0) / 1e6 + self.bytes / self.ceiling_gb_per_s / 1e9) / self.seconds


@dataclass(frozen=True)
class Group:
    """The rows of one device under one clock; rows of two groups never share a table or a figure."""

    device: str
    clock: str
    rows: tuple[Row, ...]
    repeated: int
    """Rows left out since a newer run measured the same again."""

    @property
    def label(self) -> str:
        return f"{self.device}, {self.clock} clock"

    def operations(self) -> list[str]:
        return sorted({row.op for row in self.rows})

    def dtypes(self, op: str) -> list[str]:
        return sorted({row.problem.dtype for row in self.rows if row.op == op})

    def select(self, op: str, dtype: str | None = None) -> Selection:
        return Selection(
            tuple(row for row in self.rows if row.op == op and (dtype is None or row.problem.dtype == dtype))
        )


@dataclass(frozen=True)
class Selection:
    """The rows of one operation in one group, of one dtype or of all: what a table or a figure shows."""

    rows: tuple[Row, ...]

    @cached_property
    def problems(self) -> list[Problem]:
        return sorted({row.problem for row in self.rows})

    @cached_property
    def names(self) -> list[str]:
        """Implementations: the baseline, the rest of its backend, then by backend; ``auto`` before its siblings."""
        names = {(row.backend, row.variant) for row in self.rows}
        baseline = BASELINE[0]
        order = sorted(names, key=lambda n: (n != BASELINE, n[0] != baseline, n[0], n[1] != "auto", n[1]))
        return [f"{backend}/{variant}" for backend, variant in order]

    @cached_property
    def cells(self) -> Mapping[tuple[Problem, str], Row]:
        return {(row.problem, row.name): row for row in self.rows}

    def of(self, name: str) -> list[Row]:
        """The rows of one implementation, in the order of the problems."""
        return [self.cells[problem, name] for problem in self.problems if (problem, name) in self.cells]

    def ratio(self, row: Row) -> float | None:
        """Its time over the baseline's on the same problem (below 1 is faster), or None without a baseline."""
        base = self.cells.get((row.problem, "/".join(BASELINE)))
        return None if base is None else row.seconds / base.seconds

    def mean_ratio(self, name: str) -> float | None:
        return geometric_mean(self.ratio(row) for row in self.of(name))

    def mean_of_limit(self, name: str) -> float | None:
        return geometric_mean(row.of_limit for row in self.of(name))

    def median_submit_us(self, name: str) -> float | None:
        submits = [row.submit_us for row in self.of(name) if row.submit_us is not None]
        return statistics.median(submits) if submits else None

    def sweep(self) -> list[Problem]:
        """The matrices of the row count that has the most column counts: the points of the standard figure."""
        return max(self._by_row_count().values(), key=len, default=[])

    def readable(self) -> list[Problem]:
        """The problems for a table that is read at a glance: of a long sweep only the powers of two and the ends."""
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
        found: dict[tuple[int, str], list[Problem]] = {}
        for problem in self.problems:
            if problem.is_matrix:
                found.setdefault((problem.shape[0], problem.dtype), []).append(problem)
        return found


READABLE = 10  # lines of one sweep in a table that still fit one screen together with the other shapes


@dataclass(frozen=True)
class Results:
    """All that some results files hold, by device and clock."""

    groups: tuple[Group, ...]

    def only(self, variants: tuple[str, ...]) -> Results:
        """The rows of these variants. Raises ResultsError if one of them has none."""
        known = {row.variant for group in self.groups for row in group.rows}
        for variant in variants:
            if variant not in known:
                raise ResultsError(f"no results of variant {variant!r}; known: {', '.join(sorted(known))}")
        groups = (replace(g, rows=tuple(row for row in g.rows if row.variant in variants)) for g in self.groups)
        return Results(tuple(group for group in groups if group.rows))


def load(paths: Iterable[str | Path]) -> Results:
    """Read results files. What several runs measured is taken from the newest run. Raises ResultsError."""
    newest: dict[tuple[str, str], dict[tuple[str, Problem], Row]] = {}
    repeated: dict[tuple[str, str], int] = {}
    rows = [row for path in paths for row in _read(Path(path))]
    if not rows:
        raise ResultsError("no results given; name at least one file written with pytest --benchmark-json=FILE")
    for row in sorted(rows, key=lambda row: row.run.date):  # stable: of two runs of one date the later given wins
        key = row.device, row.clock
        known = newest.setdefault(key, {})
        repeated[key] = repeated.get(key, 0) + ((row.id, row.problem) in known)
        known[row.id, row.problem] = row
    return Results(
        tuple(
            Group(*key, tuple(newest[key].values()), repeated[key])
            for key in sorted(newest, key=lambda key: (CLOCKS.index(key[1]), key[0]))
        )
    )


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Over the values that are known; None if there are none."""
    known = [value for value in values if value is not None]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None


def printable(text: str) -> str:
    """The text on one line, without control characters: it may go to a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _read(path: Path) -> list[Row]:
    try:
        raw = path.read_bytes()
        # A sweep of every implementation is megabytes of JSON, and a twentieth of that compressed.
        data = json.loads((gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8"))
    except gzip.BadGzipFile as error:
        raise ResultsError(f"{path} is named .gz and is not: {error}") from error
    except OSError as error:
        raise ResultsError(f"can't read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError, EOFError) as error:
        raise ResultsError(f"{path} is not JSON: {error}; write it with pytest --benchmark-json=FILE") from error
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        raise ResultsError(
            f"{path} holds no list 'benchmarks', so it is not pytest-benchmark's; "
            "write it with pytest --benchmark-json=FILE"
        )
    if not data["benchmarks"]:
        raise ResultsError(
            f"{path} holds no results: its list 'benchmarks' is empty, so no bench ran or all were skipped"
        )
    commit = data.get("commit_info")
    run = Run(printable(path.name), _text(data.get("datetime")), _commit(commit if isinstance(commit, dict) else {}))
    rows: list[Row] = []
    seen: dict[tuple[object, ...], int] = {}
    for index, entry in enumerate(data["benchmarks"]):
        row = _row(run, entry, f"{path}: benchmarks[{index}]")
        first = seen.setdefault((row.id, row.problem, row.device, row.clock), index)
        if first != index:
            raise ResultsError(
                f"{path}: benchmarks[{first}] and [{index}] both time {row.id} on {row.problem} {row.problem.dtype} "
                f"with the {row.clock} clock; one run times a problem once"
            )
        rows.append(row)
    return rows


def _row(run: Run, entry: object, where: str) -> Row:
    if not isinstance(entry, dict):
        raise ResultsError(f"{where} is not a JSON object")
    where += f" ({printable(str(entry.get('name', 'no name')))})"
    extra = entry.get("extra_info")
    stats = entry.get("stats")
    if not isinstance(extra, dict) or not isinstance(stats, dict):
        raise ResultsError(f"{where} lacks the objects 'stats' and 'extra_info'; the benches of kernelzoo write both")

    def take(key: str, valid: Callable[[Any], bool], allowed: str, source: Mapping[str, Any] = extra) -> Any:
        of = "stats" if source is stats else "extra_info"
        if key not in source:
            raise ResultsError(f"{where}: {of} lacks {key!r}, {allowed}, which the benches of kernelzoo write")
        if not valid(source[key]):
            raise ResultsError(f"{where}: {of} {key!r} must be {allowed}, got {source[key]!r:.80}")
        return source[key]

    # Identifiers, as the registry takes them; that also makes them safe as parts of a file's name.
    backend, op, variant, dtype = (
        take(key, lambda v: isinstance(v, str) and v.isidentifier(), "a name such as 'softmax'")
        for key in ("backend", "op", "variant", "dtype")
    )
    id = f"{backend}/{op}/{variant}"
    take("id", lambda v: v == id, f"{id!r}, as its backend, op and variant say")
    sizes = "a list of sizes of 1 or more"
    shape = take("shape", lambda v: isinstance(v, list) and bool(v) and all(map(_is_count, v)), sizes)
    dim = take("dim", lambda v: _is_int(v) and -len(shape) <= v < len(shape), f"an axis of {shape}")
    count, text, positive = "a positive whole number", "text", "a positive number"

    def optional(key: str) -> float | None:
        value = take(key, lambda v: v is None or _is_positive(v), f"{positive} or null")
        return None if value is None else float(value)

    return Row(
        run=run,
        backend=backend,
        op=op,
        variant=variant,
        problem=Problem(dim % len(shape), tuple(shape), dtype),
        seconds=float(take("median", _is_positive, f"{positive} of seconds", stats)),
        bytes=take("bytes", _is_count, count),
        device=printable(take("device", _is_text, text)),
        clock=take("clock", lambda v: v in CLOCKS, " or ".join(map(repr, CLOCKS))),
        clock_detail=printable(take("clock_detail", _is_text, text)),
        submit_us=optional("submit_us"),
        ceiling_gb_per_s=optional("ceiling_gb_per_s"),
        floor_us=optional("floor_us"),
        shape_set=printable(take("shape_set", _is_text, text)),
        versions=tuple(
            (printable(name), printable(version))
            for name, version in take(
                "versions",
                lambda v: isinstance(v, dict) and all(isinstance(version, str) for version in v.values()),
                "an object of version texts by name",
            ).items()
        ),
        samples=take("samples", _is_count, count),
    )


def _commit(info: Mapping[str, object]) -> str:
    id = _text(info.get("id"))
    if not id:
        return ""
    return id[:10] + (" with uncommitted changes" if info.get("dirty") else "")


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(printable(value))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _is_positive(value: object) -> bool:
    # The bounds are far beyond any measurement, and keep every quotient finite.
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-15 <= value <= 1e15
