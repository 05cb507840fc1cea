"""Read benchmark results: the JSON of pytest-benchmark with the ``extra_info`` that the benches of kernelzoo write.

Everything that a report needs is checked here, once, so that the tables and figures can trust it.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelzoo.errors import KernelZooError

BASELINE = "torch/eager"
"""Backend and variant that every ratio is taken to, unless told otherwise: what a torch user has without kernelzoo."""

CLOCKS = ("device", "wall", "submit")
CACHES = ("cold", "hot")
OUTCOMES = ("refused", "wrong", "failed")

FORMAT = 1
"""The newest layout that is read here of the object ``kernelzoo`` in a results file."""


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
    def length(self) -> int:
        """Of the reduced axis."""
        return self.shape[self.dim]

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
    copy_us: float | None
    """Time of a plain copy of the same data, measured in turns with this; None where that is not what moves."""
    of_limit: float | None
    """Share reached of what the device allows; None where no ceiling was measured, or the cache was hot."""
    shape_set: str
    versions: tuple[tuple[str, str], ...]
    samples: int
    times: tuple[float, ...] = field(repr=False)
    """Every sample, in seconds and in the order of the rounds; empty where the file holds none."""
    cache: str
    """``"cold"``, or ``"hot"``: the same data again and again."""
    race: str
    """Rows of one file and one race took turns, so that their samples are paired by round; empty if that is unknown."""
    repeated_rounds: int
    """Rounds of the race that were measured again, since something disturbed the device."""
    first_call_ms: float | None
    cupti_us: float | None
    """Time of one launch by the profiler's clock."""
    flags: tuple[str, ...]
    """What a reader of this figure should know, such as that the host can't keep up with it."""
    condition: tuple[tuple[str, str | float], ...]
    """The device's state around the race (clocks, temperature), by name; a name may come more than once."""

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


@dataclass(frozen=True)
class Failure:
    """One implementation that has no time on one problem, and why."""

    run: Run
    backend: str
    op: str
    variant: str
    problem: Problem
    outcome: str
    """``"refused"``, it can't run this, which is no fault; ``"wrong"``, its result was; or ``"failed"``, it broke."""
    reason: str

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"


@dataclass(frozen=True)
class Group:
    """The rows of one device, clock and state of the cache; rows of two groups never share a table or a figure."""

    device: str
    clock: str
    cache: str
    rows: tuple[Row, ...]
    repeated: int
    """Rows left out since a newer run measured the same again."""
    baseline: str = BASELINE

    @property
    def label(self) -> str:
        return f"{self.device}, {self.clock} clock" + (", hot cache" if self.cache == "hot" else "")

    def runs(self) -> list[tuple[Run, list[Row]]]:
        """The files that the rows are from, each with its rows."""
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


@dataclass(frozen=True)
class Selection:
    """The rows of one operation in one group, of one dtype or of all: what a table or a figure shows."""

    rows: tuple[Row, ...]
    baseline: str = BASELINE

    @cached_property
    def problems(self) -> list[Problem]:
        return sorted({row.problem for row in self.rows})

    @cached_property
    def names(self) -> list[str]:
        """Implementations: the baseline, the rest of its backend, then by backend; ``auto`` before its siblings."""
        names = {(row.backend, row.variant) for row in self.rows}
        first, _, variant = self.baseline.partition("/")
        order = sorted(names, key=lambda n: (n != (first, variant), n[0] != first, n[0], n[1] != "auto", n[1]))
        return [f"{backend}/{variant}" for backend, variant in order]

    @cached_property
    def cells(self) -> Mapping[tuple[Problem, str], Row]:
        return {(row.problem, row.name): row for row in self.rows}

    def of(self, name: str) -> list[Row]:
        """The rows of one implementation, in the order of the problems."""
        return [self.cells[problem, name] for problem in self.problems if (problem, name) in self.cells]

    def ratio(self, row: Row) -> float | None:
        """Its time over the baseline's on the same problem (below 1 is faster), or None without a baseline."""
        base = self.cells.get((row.problem, self.baseline))
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

    @cached_property
    def is_sweep(self) -> bool:
        """Whether a curve over columns shows what there is: points enough at one row count, most of the problems."""
        points = len(self.sweep())
        return points >= SWEEP and 2 * points >= len(self.problems)

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


SWEEP = 6  # points of a curve: fewer are told better by themselves
READABLE = 10  # lines of one sweep in a table that still fit one screen together with the other shapes


@dataclass(frozen=True)
class Results:
    """All that some results files hold, by device, clock and state of the cache."""

    groups: tuple[Group, ...]
    failed: tuple[Failure, ...] = ()
    """What has no time, in the order of the files; a file doesn't say of which group it would have been."""
    baseline: str = BASELINE

    def relative_to(self, baseline: str) -> Results:
        """The same with every ratio taken to this ``backend/variant``. Raises ResultsError if it has no results."""
        known = {row.name for group in self.groups for row in group.rows}
        if baseline not in known:
            raise ResultsError(f"no results of {baseline!r} to take ratios to; known: {', '.join(sorted(known))}")
        return replace(
            self, groups=tuple(replace(group, baseline=baseline) for group in self.groups), baseline=baseline
        )

    @property
    def variants(self) -> list[str]:
        return sorted({row.variant for group in self.groups for row in group.rows})

    def only(self, variants: tuple[str, ...]) -> Results:
        """The rows of these variants. Raises ResultsError if one of them has none."""
        for variant in variants:
            if variant not in self.variants:
                raise ResultsError(f"no results of variant {variant!r}; known: {', '.join(self.variants)}")
        groups = (replace(g, rows=tuple(row for row in g.rows if row.variant in variants)) for g in self.groups)
        return replace(
            self,
            groups=tuple(group for group in groups if group.rows),
            failed=tuple(failure for failure in self.failed if failure.variant in variants),
        )


def load(paths: Iterable[str | Path]) -> Results:
    """Read results files. What several runs measured is taken from the newest run. Raises ResultsError."""
    newest: dict[tuple[str, str, str], dict[tuple[str, Problem], Row]] = {}
    repeated: dict[tuple[str, str, str], int] = {}
    files = [_read(Path(path)) for path in paths]
    if not files:
        raise ResultsError("no results given; name at least one file written with pytest --benchmark-json=FILE")
    rows = [row for file in files for row in file[0]]
    failed = [failure for file in files for failure in file[1]]
    if not rows:
        first = failed[0]
        raise ResultsError(
            f"{first.run.file} holds no results: everything was {_any(OUTCOMES)}, the first {first.id} on "
            f"{first.problem} {first.problem.dtype}: {first.reason}"
        )
    for row in sorted(rows, key=lambda row: row.run.date):  # stable: of two runs of one date the later given wins
        key = row.device, row.clock, row.cache
        known = newest.setdefault(key, {})
        repeated[key] = repeated.get(key, 0) + ((row.id, row.problem) in known)
        known[row.id, row.problem] = row
    return Results(
        tuple(
            Group(*key, tuple(newest[key].values()), repeated[key])
            for key in sorted(newest, key=lambda key: (CLOCKS.index(key[1]), key[0], CACHES.index(key[2])))
        ),
        tuple(failed),
    )


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Over the values that are known; None if there are none."""
    known = [value for value in values if value is not None]
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if known else None


def printable(text: str) -> str:
    """The text on one line, without control characters: it may go to a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _read(path: Path) -> tuple[list[Row], list[Failure]]:
    """What was timed, and what has no time; at least one of the two."""
    try:
        raw = path.read_bytes()
        # A sweep of every implementation is megabytes of JSON, and a twentieth of that compressed.
        data = json.loads((gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8"))
    except gzip.BadGzipFile as error:
        raise ResultsError(f"{path} is named .gz and is not: {error}") from error
    except OSError as error:
        raise ResultsError(f"can't read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise ResultsError(f"{path} is not JSON: {error}; write it with pytest --benchmark-json=FILE") from error
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        raise ResultsError(
            f"{path} holds no list 'benchmarks', so it is not pytest-benchmark's; "
            "write it with pytest --benchmark-json=FILE"
        )
    commit = data.get("commit_info")
    run = Run(printable(path.name), _text(data.get("datetime")), _commit(commit if isinstance(commit, dict) else {}))
    failed = _failed(run, data.get("kernelzoo", {"format": FORMAT}), path)
    if not data["benchmarks"] and not failed:
        raise ResultsError(
            f"{path} holds no results: its list 'benchmarks' is empty, so no bench ran or all were skipped"
        )
    rows: list[Row] = []
    seen: dict[tuple[object, ...], int] = {}
    for index, entry in enumerate(data["benchmarks"]):
        row = _row(run, entry, f"{path}: benchmarks[{index}]")
        first = seen.setdefault((row.id, row.problem, row.device, row.clock, row.cache), index)
        if first != index:
            raise ResultsError(
                f"{path}: benchmarks[{first}] and [{index}] both time {row.id} on {row.problem} {row.problem.dtype} "
                f"with the {row.clock} clock and a {row.cache} cache; one run times a problem once"
            )
        rows.append(row)
    return rows, failed


class _Fields:
    """The fields of one JSON object; each is checked as it is taken. ``name`` is how an error speaks of the object."""

    def __init__(self, of: Mapping[str, Any], name: str) -> None:
        self.of, self.name = of, name

    def take(self, key: str, valid: Callable[[Any], bool], allowed: str) -> Any:
        if key not in self.of:
            raise ResultsError(f"{self.name} lacks {key!r}, {allowed}, which the benches of kernelzoo write")
        return self.maybe(key, valid, allowed)

    def maybe(self, key: str, valid: Callable[[Any], bool], allowed: str, absent: Any = None) -> Any:
        """The same for a field that older files lack."""
        if key in self.of and not valid(self.of[key]):
            raise ResultsError(f"{self.name} {key!r} must be {allowed}, got {self.of[key]!r:.80}")
        return self.of.get(key, absent)

    def subject(self) -> tuple[str, str, str, Problem]:
        """What every entry names: backend, op, variant, and the problem."""
        id = self.take("id", _is_id, "a name such as 'triton/softmax/auto'")
        backend, op, variant = id.split("/")
        sizes = "a list of sizes of 1 or more"
        shape = self.take("shape", lambda v: isinstance(v, list) and bool(v) and all(map(_is_count, v)), sizes)
        dim = self.take("dim", lambda v: _is_int(v) and -len(shape) <= v < len(shape), f"an axis of {shape}")
        self.take("op", lambda v: v == op, f"{op!r}, as the id says")
        dtype = self.take("dtype", _is_name, "a name such as 'float32'")
        return backend, op, variant, Problem(dim % len(shape), tuple(shape), dtype)


def _failed(run: Run, ours: object, path: Path) -> list[Failure]:
    """The failures that the object ``kernelzoo`` of a file tells. Raises ResultsError if it is of a newer format."""
    if not isinstance(ours, dict):
        raise ResultsError(f"{path}: 'kernelzoo' must be an object with a 'format', got {ours!r:.80}")
    fields = _Fields(ours, f"{path}: kernelzoo")
    format = fields.take("format", _is_count, "a positive whole number")
    if format > FORMAT:
        raise ResultsError(
            f"{path} is of format {format}, and this kernelzoo reads formats up to {FORMAT}; "
            "read it with the kernelzoo that wrote it, or a newer one"
        )
    found = []
    for index, entry in enumerate(fields.maybe("failed", lambda v: isinstance(v, list), "a list", [])):
        where = f"{path}: kernelzoo failed[{index}]"
        if not isinstance(entry, dict):
            raise ResultsError(f"{where} is not a JSON object")
        failure = _Fields(entry, where)
        outcome = failure.take("outcome", lambda v: v in OUTCOMES, _any(map(repr, OUTCOMES)))
        reason = failure.take("reason", lambda v: isinstance(v, str), "text")
        found.append(Failure(run, *failure.subject(), outcome, printable(reason) or "no reason given"))
    return found


def _row(run: Run, entry: object, where: str) -> Row:
    if not isinstance(entry, dict):
        raise ResultsError(f"{where} is not a JSON object")
    where += f" ({printable(str(entry.get('name', 'no name')))})"
    if not isinstance(entry.get("extra_info"), dict) or not isinstance(entry.get("stats"), dict):
        raise ResultsError(f"{where} lacks the objects 'stats' and 'extra_info'; the benches of kernelzoo write both")
    extra, stats = _Fields(entry["extra_info"], f"{where}: extra_info"), _Fields(entry["stats"], f"{where}: stats")
    # Identifiers, as the registry takes them; that also makes them safe as parts of a file's name.
    backend, op, variant = (
        extra.take(key, _is_name, "a name such as 'softmax'") for key in ("backend", "op", "variant")
    )
    id = f"{backend}/{op}/{variant}"
    extra.take("id", lambda v: v == id, f"{id!r}, as its backend, op and variant say")
    *_, problem = extra.subject()
    count, text, positive, either = "a positive whole number", "text", "a positive number", "a positive number or null"

    def optional(key: str) -> float | None:
        value = extra.take(key, _is_positive_or_null, either)
        return None if value is None else float(value)

    def late(key: str) -> float | None:
        value = extra.maybe(key, _is_positive_or_null, either)
        return None if value is None else float(value)

    seconds = float(stats.take("median", _is_positive, f"{positive} of seconds"))
    bytes = extra.take("bytes", _is_count, count)
    ceiling, floor = optional("ceiling_gb_per_s"), optional("floor_us")
    cache = extra.maybe("cache", lambda v: v in CACHES, _any(map(repr, CACHES)), "cold")
    if "of_limit" in extra.of:
        of_limit = late("of_limit")
    elif ceiling is None or cache == "hot":  # the ceiling is the memory's, which hot data never meets
        of_limit = None
    else:  # an unknown floor counts as zero, which makes the share smaller, never larger
        of_limit = ((floor or 0.0) / 1e6 + bytes / ceiling / 1e9) / seconds
    samples = extra.take("samples", _is_count, count)
    return Row(
        run=run,
        backend=backend,
        op=op,
        variant=variant,
        problem=problem,
        seconds=seconds,
        bytes=bytes,
        device=printable(extra.take("device", _is_text, text)),
        clock=extra.take("clock", lambda v: v in CLOCKS, _any(map(repr, CLOCKS))),
        clock_detail=printable(extra.take("clock_detail", _is_text, text)),
        submit_us=optional("submit_us"),
        ceiling_gb_per_s=ceiling,
        floor_us=floor,
        copy_us=late("copy_us"),
        of_limit=of_limit,
        shape_set=printable(extra.take("shape_set", _is_text, text)),
        versions=tuple(
            (printable(name), printable(version))
            for name, version in extra.take(
                "versions",
                lambda v: isinstance(v, dict) and all(isinstance(version, str) for version in v.values()),
                "an object of version texts by name",
            ).items()
        ),
        samples=samples,
        times=tuple(
            map(
                float,
                stats.maybe(
                    "data",
                    lambda v: isinstance(v, list) and len(v) in (0, samples) and all(map(_is_positive, v)),
                    f"a list of {samples} positive numbers of seconds, one per sample",
                    [],
                ),
            )
        ),
        cache=cache,
        race=printable(extra.maybe("race", lambda v: isinstance(v, str), text, "")),
        repeated_rounds=extra.maybe(
            "repeated_rounds", lambda v: _is_int(v) and 0 <= v < 2**63, "a whole number, 0 or more", 0
        ),
        first_call_ms=late("first_call_ms"),
        cupti_us=late("cupti_us"),
        flags=tuple(
            printable(flag)
            for flag in extra.maybe(
                "flags", lambda v: isinstance(v, list) and all(map(_is_text, v)), "a list of texts", []
            )
        ),
        condition=tuple(
            _leaves(
                extra.maybe(
                    "condition",
                    lambda v: v is None or _is_object(v) or (isinstance(v, list) and all(map(_is_object, v))),
                    "an object, a list of objects, or null",
                )
            )
        ),
    )


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, str | float]]:
    """The texts, numbers and truths in an object, however deep, by the name that each has there."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, printable(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif isinstance(value, bool) or (isinstance(value, str) and printable(value)):
        yield name, printable(str(value)).lower() if isinstance(value, bool) else printable(value)
    elif isinstance(value, int | float) and -1e15 <= value <= 1e15:
        yield name, float(value)


def _commit(info: Mapping[str, object]) -> str:
    id = _text(info.get("id"))
    if not id:
        return ""
    return id[:10] + (" with uncommitted changes" if info.get("dirty") else "")


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""


def _any(values: Iterable[str]) -> str:
    *most, last = values
    return f"{', '.join(most)} or {last}"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value.split("/")) == 3 and all(map(_is_name, value.split("/")))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(printable(value))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _is_positive(value: object) -> bool:
    # The bounds are far beyond any measurement, and keep every quotient finite.
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-15 <= value <= 1e15


def _is_positive_or_null(value: object) -> bool:
    return value is None or _is_positive(value)
