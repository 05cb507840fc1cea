"""Results as plain rows and as JSON, for other programs and tables."""

import csv
import html
import io
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report.notes import TILDE
from kernelzoo.report.reading import load
from kernelzoo.report.results import ComparableRows, Problem, Result, Results, Row, Selection

Json = dict[str, Any]

SHOWN = 100
"""The most rows that a notebook shows."""


class Rows(list[dict[str, Any]]):
    """A list of dictionaries with the same keys, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        shown = [key for key in (self[0] if self else ()) if any(row[key] not in _UNSAID for row in self)]
        lines = [_html_row("td", [_text(row[key]) for key in shown]) for row in self[:SHOWN]]
        more = f"<p>and {len(self) - SHOWN} more</p>" if len(self) > SHOWN else ""
        return f"<table>{_html_row('th', shown)}{''.join(lines)}</table>{more}"


_UNSAID: tuple[Any, ...] = (None, "", [], {})


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value in _UNSAID else json.dumps(value) if isinstance(value, list | dict) else str(value)


def read(*paths: str | Path) -> Rows:
    """Read the rows of results files. Each is a dictionary with the same keys. A notebook shows them as a table.

    ``outcome`` is ``measured``, or ``refused``, ``wrong`` or ``failed`` with a ``reason``. ``seconds`` is the median
    time of a launch. ``p10``, ``quartile_1``, ``quartile_3`` and ``p90`` are :func:`quantiles` of its samples, in
    seconds too. ``of_limit`` is the shortest possible time on the device divided by the time. Unknown values are None.
    If several runs measured the same row, the newest is returned. Raises ResultsError for a file without results.

    >>> import kernelzoo
    >>> rows = kernelzoo.results.read("bench/results/h200-axes.json.gz")
    >>> sorted({row["op"] for row in rows})
    ['min', 'softmax']
    """
    found = load(paths)
    measured = [_measured_values(row) for group in found.groups for row in group.rows]
    lost = [{**_describe_result(one), "outcome": one.outcome, "reason": one.reason} for one in found.failed]
    return Rows([*measured, *lost])


def to_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as CSV, with a header of names. Lists and dictionaries are JSON."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(_EMPTY), lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({key: json.dumps(x) if isinstance(x, list | dict) else x for key, x in row.items()})
    return text.getvalue()


def quantiles(times: Sequence[float], unit: float = 1.0) -> dict[str, float | None]:
    """Return the 10th, 25th, 75th and 90th percentiles of times in units of ``unit``; None for fewer than two times."""
    names = {"p10": 10, "quartile_1": 25, "quartile_3": 75, "p90": 90}
    if len(times) < 2:
        return dict.fromkeys(names)
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return {name: cuts[percent - 1] / unit for name, percent in names.items()}


_EMPTY: dict[str, Any] = dict.fromkeys(
    (
        *("outcome", "reason", "id", "op", "backend", "variant", "form", "dtype", "shape", "dim", "scalars"),
        *("seconds", "p10", "quartile_1", "quartile_3", "p90", "samples", "bytes", "gb_per_s", "of_limit", "submit_us"),
        *("first_call_ms", "device", "clock", "cache", "flags", "breaks", "versions", "shape_set", "file", "date"),
    )
) | {"reason": "", "breaks": ""}  # "" rather than None: a data frame takes a column's type from the first rows


def _describe_result(one: Result) -> dict[str, Any]:
    problem = one.problem
    return {
        **_EMPTY,
        "id": one.id,
        "op": one.op,
        "backend": one.backend,
        "variant": one.variant,
        "dtype": problem.dtype,
        "shape": list(problem.shape),
        "dim": problem.dim,
        "scalars": dict(problem.scalars),
        "file": one.run.file,
        "date": one.run.date,
    }


def _measured_values(row: Row) -> dict[str, Any]:
    timed = {"seconds": row.seconds, **quantiles(row.times), "samples": row.samples}
    moved = {"bytes": row.bytes, "gb_per_s": row.bytes / row.seconds / 1e9, "of_limit": row.of_limit}
    how = {"device": row.device, "clock": row.clock, "cache": row.cache, "shape_set": row.shape_set}
    said = {"form": row.form or None, "flags": list(row.flags), "breaks": row.breaks}
    host = {"submit_us": row.submit_us, "first_call_ms": row.first_call_ms, "versions": dict(row.versions)}
    return {**_describe_result(row), "outcome": "measured", **timed, **moved, **how, **said, **host}


def document(results: Results) -> Json:
    """Return every group with its summary and rows, and all failures. Ratios are time / the baseline's time."""
    return {
        "baseline": results.baseline,
        "groups": [_describe_group(group) for group in results.groups],
        "failed": [
            {"id": one.id, **_as_json(one.problem), "outcome": one.outcome, "reason": one.reason, "file": one.run.file}
            for one in results.failed
        ],
        "differing": results.summary_contradictions(),
    }


def _describe_group(group: ComparableRows) -> Json:
    selections = [group.select(op) for op in group.operations()]
    return {
        "device": group.device,
        "clock": group.clock,
        "cache": group.cache,
        "older_results_left_out": group.repeated,
        "summary": [_summary(selection, name) for selection in selections for name in selection.names],
        "rows": [_describe_row(selection, row) for selection in selections for row in selection.rows],
    }


def _summary(selection: Selection, name: str) -> Json:
    """Return the means of one implementation and operation over its problems."""
    rows = selection.of(name)
    return {
        "id": rows[0].id,
        "ratio": selection.mean_ratio(name),
        "of_limit": selection.mean_share_of_limit(name),
        "energy_ratio": selection.mean_energy_ratio(name),
        "submit_us": selection.median_submit_us(name),
        "problems": len(rows),
        "problems_of_all": len(selection.problems),
        "disturbed": sum(TILDE in row.marks for row in rows),
    }


def _describe_row(selection: Selection, row: Row) -> Json:
    return {
        "id": row.id,
        "form": row.form or None,
        **_as_json(row.problem),
        "median_us": row.microseconds,
        "quantiles_us": quantiles(row.times, 1e-6),
        "ratio": selection.ratio(row),
        "gb_per_s": None if row.clock in OF_CALLS else row.gb_per_s,
        "of_limit": row.of_limit,
        "copy_us": row.copy_us,
        "energy": None if row.energy is None else row.energy.as_numbers,
        "energy_ratio": selection.energy_ratio(row),
        "submit_us": row.submit_us,
        "same_bits": row.same_bits,
        "batch_invariant": row.batch_invariant,
        "first_call_ms": row.first_call_ms,
        "samples": row.samples,
        "flags": list(row.flags),
        "gpu": row.gpu or None,
        "breaks": row.breaks or None,
        "file": row.run.file,
    }


def _as_json(problem: Problem) -> Json:
    found: Json = {"shape": list(problem.shape), "dim": problem.dim, "dtype": problem.dtype}
    found |= {"axes": dict(problem.axes)} if problem.axes else {}
    return found | ({"scalars": dict(problem.scalars)} if problem.scalars else {})
