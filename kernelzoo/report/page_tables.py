"""The page's tables outside the explorer: summaries, scores, files, flags, and missing results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kernelzoo.report import result_tables, sections
from kernelzoo.report.results import OUTCOMES, Failure, Group, Results, Row
from kernelzoo.report.table import WORDS, Cell, Table

LONG = 1000
"""Most characters of a reason."""

FEW = 12
"""Most problems named beside a reason."""

VALUES = re.compile(
    r", in rows of [^:]*|torch\.\w+|[-+]?\b(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)\b(?: to [-+]?\d\S*)?|[(),]"
)
"""Parts in which reasons of one kind differ: numbers, places, dtypes and special values."""

UNITS = {"mhz": " MHz", "c": " °C", "w": " W", "s": " s"}
"""The unit of a state of the device, by the end of its name."""


def runs(group: Group) -> Table:
    lines = [
        [
            Cell(run.file),
            *(Cell(text, kind=WORDS) for text in (run.minute, run.commit or "unknown")),
            Cell(", ".join(sorted({row.shape_set for row in rows})), kind=WORDS),
            Cell(str(len(rows))),
            Cell(sections.samples(rows)),
        ]
        for run, rows in group.runs()
    ]
    headers = ["file", "measured", "commit", "shapes", "results", "samples each"]
    return Table(headers, lines, caption="Files")


def conditions(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """The device's state over all rows, by name: the range of numbers, or all texts."""
    found: dict[str, set[str | float]] = {}
    for row in rows:
        for name, value in row.condition:
            if name != "at_s":  # the time of the reading
                found.setdefault(name, set()).add(value)
    facts = []
    for name, values in found.items():
        what, _, unit = name.rpartition("_")
        if unit not in UNITS:
            what, unit = name, ""
        numbers = sorted(value for value in values if isinstance(value, float))
        texts = sorted(value for value in values if isinstance(value, str))
        if numbers:
            ends = dict.fromkeys(f"{round(number, 1):g}" for number in (numbers[0], numbers[-1]))
            texts.append(" to ".join(ends) + UNITS.get(unit, ""))
        facts.append((what.replace("_", " "), ", ".join(texts)))
    return facts


def summary(group: Group, op: str) -> Table:
    tables = {"submit": result_tables.submit_table, "call": result_tables.call_table}
    table = tables.get(group.clock, result_tables.summary_table)(group.select(op))
    return replace(table, caption=f"{op}: the fastest first", op=op)


def _some(problems: list[str]) -> str:
    return "; ".join(dict.fromkeys(problems[:FEW])) + f"; and {len(problems) - FEW} more" * (len(problems) > FEW)


def breaking(results: Results) -> Table | None:
    """The implementations that break the contract, and how."""
    table = result_tables.breaking_table(results)
    return replace(table, caption="Timed although it breaks the contract") if table.rows else None


def failures(results: Results) -> Table | None:
    """A line for each reason why something has no time, the worst outcome first. Reasons count as one if only values or
    implementation names differ."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for failure in sorted(results.failed, key=lambda f: (-OUTCOMES.index(f.outcome), f.id, f.problem)):
        words = failure.reason.replace(failure.id, "").replace(failure.id.replace(f"/{failure.op}/", "/"), "")
        found.setdefault((failure.outcome, " ".join(VALUES.sub("", words).split())), []).append(failure)
    lines = []
    for (outcome, _), alike in found.items():
        reasons = list(dict.fromkeys(failure.reason for failure in alike))
        text = reasons[0] if len(reasons[0]) <= LONG else f"{reasons[0][:LONG]} ..."
        more = f"and {len(reasons) - 1} more that differ in values or names" if len(reasons) > 1 else ""
        problems = [failure.problem.title for failure in alike]
        lines.append(
            [
                Cell(", ".join(dict.fromkeys(failure.id for failure in alike)), kind="wrap"),
                Cell(outcome, kind="neutral" if outcome == "refused" else "slower"),
                Cell(text, note=more, kind="text"),
                Cell(str(len(alike))),
                Cell(_some(problems), kind="text"),
                Cell(", ".join(dict.fromkeys(failure.run.file for failure in alike)), kind="wrap"),
            ]
        )
    headers = ["implementation", "outcome", "reason", "results", "problems", "file"]
    return Table(headers, lines, caption="Without a result, and why") if lines else None
