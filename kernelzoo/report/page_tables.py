"""The page's tables outside the explorer: summaries, scores, files, flags, and missing results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kernelzoo.report import result_tables, sections
from kernelzoo.report.results import Group, Results, Row
from kernelzoo.report.table import WORDS, Cell, Table

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


def breaking(results: Results) -> Table | None:
    """The implementations that break the contract, and how."""
    table = result_tables.breaking_table(results)
    return replace(table, caption="Timed although it breaks the contract") if table.rows else None


def failures(results: Results) -> Table | None:
    """A line for each reason why something has no time."""
    table = result_tables.failure_table(results)
    return replace(table, caption="Without a result, and why") if table.rows else None
