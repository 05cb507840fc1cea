"""Reads benchmark results: the JSON of pytest-benchmark with the ``extra_info`` of ``kernelzoo bench``.

Everything that a report needs is checked here once, by the schema and then in code. Tables and figures rely on that.
"""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kernelzoo import files
from kernelzoo.files import printable
from kernelzoo.measure import schema
from kernelzoo.measure.energy import Energy
from kernelzoo.report.results import (
    BASELINE,
    CACHES,
    CLOCKS,
    ComparableRows,
    Counters,
    Failure,
    Problem,
    Results,
    ResultsError,
    Row,
    Run,
)

WRITTEN = "results files are written by kernelzoo bench -o FILE.json (or by pytest --benchmark-json=FILE)"


class NoTimesError(ResultsError):
    """The files have no times: records of checks (:mod:`kernelzoo.report.findings`), or only a profiler's counts."""


def load(paths: Iterable[str | Path]) -> Results:
    """Read results files. Raises ResultsError.

    If several runs measured the same row, the newest is used. If that one was wrong or failed, there is no row.

    Records of bench/counters.py may be among the files. They add a profiler's counts to the rows of the other files.
    """
    newest: dict[Key, dict[tuple[str, Problem], Row]] = {}
    repeated: dict[Key, int] = {}
    files = [_read_file(Path(path)) for path in paths]
    if not files:
        raise ResultsError(f"no results file is named; {WRITTEN}")
    rows = [row for file in files for row in file.rows]
    failed = [failure for file in files for failure in file.failed]
    counters = {key: facts for file in files for key, facts in file.counters.items()}
    if not rows and not failed:
        raise NoTimesError(f"a profiler's counts have no times to report; name the results too: {WRITTEN}")
    if not rows:
        first = failed[0]
        raise ResultsError(
            f"{first.run.file} holds no results: everything was refused, wrong or failed, the first {first.id} on "
            f"{first.problem} {first.problem.dtype}: {first.reason}"
        )
    lost = _dates_of_losses(rows, failed)
    rows = [row for row in rows if row.run.date >= lost.get((row.device, row.id, row.problem), "")]
    for row in sorted(rows, key=lambda row: row.run.date):  # stable: for equal dates the later file wins
        key = row.device, row.clock, row.cache
        known = newest.setdefault(key, {})
        repeated[key] = repeated.get(key, 0) + ((row.id, row.problem) in known)
        known[row.id, row.problem] = row
    groups = {
        key: of_key for whole, known in newest.items() for key, of_key in _by_card(whole, list(known.values())).items()
    }
    return Results(
        tuple(
            ComparableRows(*key, tuple(groups[key]), repeated.get(key, 0))
            for key in sorted(groups, key=lambda key: (CLOCKS.index(key[1]), key[0], CACHES.index(key[2])))
        ),
        tuple(failed),
        counters=counters,
    )


def _dates_of_losses(rows: Iterable[Row], failed: Iterable[Failure]) -> dict[tuple[str, str, Problem], str]:
    """Return when implementations were last wrong, or failed, on the devices that the same file has times of."""
    places = {(row.run, row.device) for row in rows}
    found: dict[tuple[str, str, Problem], str] = {}
    for one in failed:
        for device in {device for run, device in places if run == one.run and one.outcome != "refused"}:
            found[device, one.id, one.problem] = max(found.get((device, one.id, one.problem), ""), one.run.date)
    return found


Key = tuple[str, str, str]
"""Device, clock and state of the cache."""


@dataclass(frozen=True)
class _File:
    """The contents of one file: rows and failures, or a profiler's counts."""

    rows: list[Row] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    counters: Mapping[tuple[str, str, str], Counters] = field(default_factory=dict)


def _read_file(path: Path) -> _File:
    try:
        data = files.read_json(path)
    except files.FileError as error:
        raise ResultsError(f"{error}; {WRITTEN}") from error
    told = re.fullmatch(r"kernelzoo-([a-z-]+)/\d+", str(data.get("format"))) if isinstance(data, dict) else None
    kind = told[1] if told else ""
    if kind == "profile":
        return _File(counters=_parse_counters(path, data))
    if kind not in ("", "bench"):
        raise NoTimesError(f"{path} is a record of kernelzoo {kind}, which has no times to report; {WRITTEN}")
    if wrong := schema.find_error(data):
        raise ResultsError(f"{path}{'' if wrong.startswith(':') else ' '}{wrong}")
    info = commit if isinstance(commit := data.get("commit_info"), dict) else {}
    dirty = " with uncommitted changes" if info.get("dirty") else ""
    commit = f"{sha[:10]}{dirty}" if (sha := _text(info.get("id"))) else ""
    again = tuple(map(_describe_remeasurement, data.get("kernelzoo", {}).get("again", [])))
    run = Run(printable(path.name), _text(data.get("datetime")), commit, again)
    failed = [
        Failure(
            run,
            *_parse_id_and_problem(entry, f"{path}: kernelzoo failed[{index}]"),
            entry["outcome"],
            printable(entry["reason"]) or "no reason given",
        )
        for index, entry in enumerate(data.get("kernelzoo", {}).get("failed", []))
    ]
    if not data["benchmarks"] and not failed:
        raise ResultsError(
            f"{path} holds no results: its list 'benchmarks' is empty, so no bench ran or all were skipped"
        )
    rows: list[Row] = []
    seen: dict[tuple[object, ...], int] = {}
    known_problems: dict[Problem, Problem] = {}  # equal problems become one object, for faster look-up
    for index, entry in enumerate(data["benchmarks"]):
        where = f"{path}: benchmarks[{index}] ({printable(str(entry.get('name', 'no name')))})"
        row = _to_row(run, entry, known_problems, where)
        first = seen.setdefault((row.id, row.problem, row.device, row.clock, row.cache), index)
        if first != index:
            raise ResultsError(
                f"{path}: benchmarks[{first}] and [{index}] both time {row.id} on {row.problem} {row.problem.dtype} "
                f"with the {row.clock} clock and a {row.cache} cache; one run times a problem once"
            )
        rows.append(row)
    return _File(rows, failed)


def _parse_counters(path: Path, record: Mapping[str, Any]) -> Mapping[tuple[str, str, str], Counters]:
    """Return a profiler's counts for each launch, by device, id and problem."""
    found = {}
    try:
        device = printable(record["environment"]["device"])
        for row in record["rows"]:
            facts = {printable(name): printable(str(value)) for name, value in row.items()}
            key = device, facts.pop("id"), facts.pop("problem")
            found[key] = tuple((name, value.removesuffix(".0")) for name, value in facts.items())
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path} is no record of bench/counters.py ({type(error).__name__}: {error})") from error
    return found


def _parse_id_and_problem(entry: Mapping[str, Any], where: str) -> tuple[str, str, str, Problem]:
    """Return the backend, op, variant and problem of an entry. Raises ResultsError if they contradict each other."""
    id, shape, dim = entry["id"], entry["shape"], entry["dim"]
    backend, op, variant = id.split("/")
    for key, part in (("backend", backend), ("op", op), ("variant", variant)):
        if entry.get(key, part) != part:
            raise ResultsError(f"{where} {key!r} must be {part!r}, as the id says, got {entry[key]!r:.80}")
    if not -len(shape) <= dim < len(shape):
        raise ResultsError(f"{where} 'dim' must be an axis of {shape}, got {dim!r:.80}")
    return backend, op, variant, Problem.of(entry)


def _to_row(run: Run, entry: Mapping[str, Any], known_problems: dict[Problem, Problem], where: str) -> Row:
    """Return an entry that fits the schema as a row. Raises ResultsError if its fields contradict each other."""
    extra, stats = entry["extra_info"], entry["stats"]
    id = f"{extra['backend']}/{extra['op']}/{extra['variant']}"
    if extra["id"] != id:
        raise ResultsError(
            f"{where}: extra_info 'id' must be {id!r}, as its backend, op and variant say, got {extra['id']!r:.80}"
        )
    backend, op, variant, problem = _parse_id_and_problem(extra, f"{where}: extra_info")
    bytes, samples = extra["bytes"], extra["samples"]
    times = stats.get("data", [])
    if len(times) not in (0, samples):
        raise ResultsError(
            f"{where}: stats 'data' must be a list of {samples} positive numbers of seconds, one per sample, "
            f"got {len(times)}"
        )
    told: dict[str, Any] = {name: _float(extra.get(name)) for name in _FIGURES}
    told |= {name: _text(extra.get(name)) for name in _TEXTS}
    told |= {name: known if isinstance(known := extra.get(name), bool) else None for name in _BITS}
    ceiling, floor = extra["ceiling_gb_per_s"], extra["floor_us"]
    cache = extra.get("cache", "cold")
    seconds = statistics.median(times) if times else float(stats["median"])
    said = {"median": stats["median"] * 1e6, "GB/s": extra.get("gb_per_s"), "of limit": extra.get("of_limit")}
    if ceiling is None or cache == "hot":  # hot data does not reach memory's ceiling
        of_limit = None
    else:  # an unknown floor counts as zero, which only makes the share smaller
        of_limit = ((floor or 0.0) / 1e6 + bytes / ceiling / 1e9) / seconds
    if not times and "of_limit" in extra:
        of_limit = extra["of_limit"]
    ours = {"median": seconds * 1e6, "GB/s": bytes / seconds / 1e9, "of limit": of_limit}
    differs = tuple(_contradictions(said, ours)) if times else ()
    return Row(
        run=run,
        backend=backend,
        op=op,
        variant=variant,
        problem=known_problems.setdefault(problem, problem),
        seconds=seconds,
        bytes=bytes,
        of_limit=_float(of_limit),
        versions=tuple((printable(name), printable(version)) for name, version in extra["versions"].items()),
        samples=samples,
        times=tuple(map(float, times)),
        cache=cache,
        repeated_rounds=extra.get("repeated_rounds", 0),
        flags=tuple(map(printable, extra.get("flags", []))),
        energy=Energy(**{name: extra["energy"][name] for name in _ENERGY}) if extra.get("energy") else None,
        condition=tuple(_flatten_nested_values(extra.get("condition"))),
        gpu=_gpu_uuid(extra.get("gpu")),
        beside=_gpu_uuid(extra.get("beside")),
        differs=differs,
        **told,
    )


_FIGURES = ("submit_us", "ceiling_gb_per_s", "floor_us", "copy_us", "first_call_ms", "cupti_us")
_TEXTS = ("form", "device", "clock", "clock_detail", "shape_set", "race", "breaks", "table")
_BITS = ("same_bits", "batch_invariant")
_ENERGY = tuple(field.name for field in fields(Energy) if field.name != "unknown")

ROUNDED = 1e-3
"""The relative difference up to which two figures count as equal, because files have five digits."""


def _contradictions(stated: Mapping[str, Any], computed: Mapping[str, float | None]) -> Iterator[str]:
    """Yield a text for each ``stated`` figure that contradicts the one ``computed`` from the samples."""
    for name, figure in stated.items():
        found = computed[name]
        if not isinstance(figure, int | float) or found is None:
            continue
        if abs(figure - found) > ROUNDED * found:
            unit = " µs" if name == "median" else ""
            yield f"{name} {figure:.5g}{unit} by its own summary, {found:.5g}{unit} by its samples"


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _flatten_nested_values(nested: object, name: str = "") -> Iterator[tuple[str, str | float]]:
    """Yield the texts, numbers and booleans of a nested object, by name."""
    if isinstance(nested, dict):
        for key, inner in nested.items():
            yield from _flatten_nested_values(inner, printable(key))
    elif isinstance(nested, list):
        for inner in nested:
            yield from _flatten_nested_values(inner, name)
    elif isinstance(nested, bool) or (isinstance(nested, str) and printable(nested)):
        yield name, printable(str(nested)).lower() if isinstance(nested, bool) else printable(nested)
    elif isinstance(nested, int | float) and -1e15 <= nested <= 1e15:
        yield name, float(nested)


def _gpu_uuid(value: object) -> str:
    return _text(value.get("uuid")) if isinstance(value, dict) else ""


def _by_card(key: Key, rows: Sequence[Row]) -> dict[Key, list[Row]]:
    """Split a group's rows by card if several cards measured the same problem. A ratio needs times of one card.

    The card of the baseline's row, or else of the first row, keeps ``key``. Other rows get a key that names their card.
    """
    cards: dict[tuple[str, Problem], str] = {}
    for row in sorted(rows, key=lambda row: row.name != BASELINE):  # stable, so the others stay in order
        cards.setdefault((row.op, row.problem), row.card)
        cards[row.op, row.problem] = cards[row.op, row.problem] or row.card  # a row without a card may be of any
    found: dict[Key, list[Row]] = {key: []}
    for row in rows:
        apart = row.card not in ("", cards[row.op, row.problem])
        found.setdefault((f"{key[0]}, {row.card}" if apart else key[0], *key[1:]), []).append(row)
    return found


def _describe_remeasurement(one: Mapping[str, Any]) -> tuple[str, str]:
    """Return the remeasured backends, and a text: the date, and torch's new time divided by its time before."""
    mean, least, most = (float(one["yardstick"][name]) for name in ("mean", "least", "most"))
    took = f"took {mean:.3f} of its earlier time in the mean, {least:.2f} to {most:.2f}"
    return ", ".join(map(printable, one["backends"])), f"{printable(one['datetime'])}, while torch/eager {took}"


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""
