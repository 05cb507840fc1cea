"""The tables of the page: summaries, heat maps, ratios with intervals, every result, flags, and missing results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kernelzoo.report import plots, result_tables, sections
from kernelzoo.report.compare import Comparison
from kernelzoo.report.page_cells import (
    BEST,
    WORST,
    Grid,
    Td,
    date,
    grid_of,
    interval_text,
    known,
    mix,
    ratio_shade,
    ratio_text,
    verdict_kind,
)
from kernelzoo.report.page_figures import shown
from kernelzoo.report.results import Group, Problem, Results, Row, Selection
from kernelzoo.report.table import significant

LONG = 1000
"""Characters of a reason that are shown."""

UNITS = {"mhz": " MHz", "c": " °C", "w": " W", "s": " s"}
"""The unit of a device's state, by the end of its name."""


def runs(group: Group) -> Grid:
    lines = [
        [
            Td(run.file),
            Td(date(run)),
            Td(run.commit or "unknown"),
            Td(", ".join(sorted({row.shape_set for row in rows}))),
            Td(str(len(rows)), kind="number"),
            Td(sections.samples(rows), kind="number"),
        ]
        for run, rows in group.runs()
    ]
    return Grid("Files", ["file", "measured", "commit", "shapes", "results", "samples each"], lines)


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


def summary(group: Group, op: str, looks: Mapping[str, plots.Style]) -> Grid:
    selection = group.select(op)
    table = (result_tables.submit_table if group.clock == "submit" else result_tables.summary_table)(selection)
    grid = grid_of(f"{op}: the fastest first", table)
    ratio = table.headers.index(f"time / {selection.baseline}")
    lines = []
    for line, (named, *_) in zip(grid.rows, table.rows, strict=True):
        name, cell = line[0], line[ratio]
        name = replace(name, swatch=looks[named.id].colour)
        cell = replace(cell, shade=ratio_shade(float(cell.text))) if cell.text != result_tables.BLANK.text else cell
        lines.append([name, *line[1:ratio], cell, *line[ratio + 1 :]])
    return replace(grid, rows=lines)


def scores(group: Group, kind: str) -> list[Grid]:
    made = sections.SCORES[kind]
    tables = [(op, made.table(group, op)) for op in group.operations() if group.clock != "submit"]
    return [grid_of(f"{op}: {made.caption}", table) for op, table in tables if table is not None]


def heat(selection: Selection, looks: Mapping[str, plots.Style]) -> Grid | None:
    """Implementation by shape: the share of the limit in percent, or the ratio to the baseline without a limit."""
    problems = plots.by_length(selection.readable())
    with_limit = any(row.of_limit is not None for row in selection.rows)
    value: Callable[[Row], float | None] = (lambda row: row.of_limit) if with_limit else selection.ratio
    if not any(value(row) is not None for row in selection.rows):
        return None
    lines = []
    for name in selection.names:
        rows = selection.of(name)
        line = [Td(rows[0].name + result_tables.marks_of(rows), swatch=looks[rows[0].id].colour)]
        for problem in problems:
            row = selection.cells.get((problem, name))
            number = None if row is None else value(row)
            if row is None or number is None:
                line.append(Td("", hover=f"{name} has no result on {problem}", kind="none"))
                continue
            shade = mix(WORST, BEST, min(number, 1.0)) if with_limit else ratio_shade(number)
            text = f"{100 * number:.0f}" if with_limit else ratio_text(number)
            line.append(Td(text, hover=_hover(selection, row), shade=shade, kind="flagged" if row.flags else ""))
        lines.append(line)
    what = "Share of the limit reached, in percent" if with_limit else f"Time over that of {selection.baseline}"
    note = "" if len(problems) == len(selection.problems) else "; some shapes of a long sweep, the figure has all"
    marked = "; a corner marks a flagged result" if any(row.flags for row in selection.rows) else ""
    return Grid(f"{what}: implementation by shape{note}{marked}", ["", *map(str, problems)], lines, "heat")


def ratios(
    selection: Selection, comparisons: Mapping[tuple[Problem, str], Comparison], looks: Mapping[str, plots.Style]
) -> Grid | None:
    """Ratio, interval and verdict on each shape, of the implementations that are shown at first."""
    names = [name for name in shown(selection) if any(key[1] == name for key in comparisons)]
    if not names:
        return None
    lines = []
    for problem in plots.by_length(selection.readable()):
        cells = [_compared(comparisons.get((problem, name))) for name in names]
        if any(cell.text for cell in cells):
            lines.append([Td(str(problem)), *cells])
    return Grid(f"Time over that of {selection.baseline}: 95 % interval and verdict", ["shape", *names], lines)


def _compared(comparison: Comparison | None) -> Td:
    if comparison is None:
        return Td("", kind="number")
    verdict = comparison.verdict
    return Td(
        " ".join([ratio_text(comparison.ratio), *([verdict.value] if verdict else []), *comparison.marks]),
        note=interval_text(comparison),
        kind=f"number {verdict_kind(verdict)}",
    )


def everything(
    selection: Selection, comparisons: Mapping[tuple[Problem, str], Comparison], looks: Mapping[str, plots.Style]
) -> Grid:
    """Every row with all its values; empty columns are left out."""
    headers = [
        "implementation",
        "form",
        "shape",
        "time, µs",
        "GB/s",
        "of limit",
        f"time / {selection.baseline}",
        "95 % interval",
    ]
    headers += ["verdict", "plain copy, µs", "host submit, µs", "first call, ms", "CUPTI, µs"]
    headers += ["samples", "rounds repeated", "flags"]
    lines = []
    for problem in plots.by_length(selection.problems):
        rows = [selection.cells[problem, name] for name in selection.names if (problem, name) in selection.cells]
        for row in sorted(rows, key=lambda row: row.seconds):
            comparison = comparisons.get((problem, row.name))
            ratio = selection.ratio(row) if comparison is None else comparison.ratio
            verdict = None if comparison is None else comparison.verdict
            figures = [
                significant(row.microseconds),
                significant(row.gb_per_s),
                "" if row.of_limit is None else f"{row.of_limit:.0%}",
                "" if ratio is None else ratio_text(ratio),
                "" if comparison is None else interval_text(comparison),
            ]
            later = [known(v) for v in (row.copy_us, row.submit_us, row.first_call_ms, row.cupti_us)]
            later += [str(row.samples), str(row.repeated_rounds or "")]
            lines.append(
                [
                    Td(row.marked_name, swatch=looks[row.id].colour),
                    Td(row.chosen),
                    Td(str(problem)),
                    *(Td(text, kind="number") for text in figures),
                    Td(verdict.value if verdict else "", kind=verdict_kind(verdict)),
                    *(Td(text, kind="number") for text in later),
                    Td(", ".join(row.flags), kind="wrap"),
                ]
            )
    kept = [i for i in range(len(headers)) if any(line[i].text for line in lines)]
    return Grid(
        f"Every result, shape by shape, the fastest first ({len(lines)})",
        [headers[i] for i in kept],
        [[line[i] for i in kept] for line in lines],
    )


def remarks(group: Group) -> Grid | None:
    """The flags of rows, and the problems whose rounds were repeated."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in sorted(group.rows, key=lambda row: (row.id, row.problem)):
        for flag in row.flags:
            found.setdefault((flag, row.id), []).append(f"{row.problem.dtype} {row.problem}")
    repeated: dict[tuple[str, Problem], int] = {}
    for row in group.rows:
        if row.repeated_rounds:
            repeated[row.op, row.problem] = max(repeated.get((row.op, row.problem), 0), row.repeated_rounds)
    for (op, problem), count in sorted(repeated.items()):
        found.setdefault((f"{count} rounds repeated" if count > 1 else "1 round repeated", f"all of {op}"), []).append(
            f"{problem.dtype} {problem}"
        )
    if not found:
        return None
    return Grid(
        "Flags: what to know about some results",
        ["flag", "implementation", "results", "where"],
        [
            [Td(flag), Td(id), Td(str(len(where)), kind="number"), Td("; ".join(where), kind="text")]
            for (flag, id), where in sorted(found.items())
        ],
    )


def breaking(results: Results) -> Grid | None:
    """The implementations that break the contract, and how."""
    table = result_tables.breaking_table(results)
    return grid_of("Timed although it breaks the contract", table) if table.rows else None


def failures(results: Results) -> Grid | None:
    if not results.failed:
        return None
    table = result_tables.failure_table(results)
    lines = []
    for id, outcome, problems, reason, file in table.rows:
        text = reason.text if len(reason.text) <= LONG else f"{reason.text[:LONG]} ..."
        kind = "neutral" if outcome.text == "refused" else "slower"
        lines.append(
            [
                Td(id.text),
                Td(outcome.text, kind=kind),
                Td(problems.text, kind="text"),
                Td(text, kind="text"),
                Td(file.text),
            ]
        )
    return Grid("Without a result, and why", table.headers, lines)


def _hover(selection: Selection, row: Row) -> str:
    parts = [f"{row.name} on {row.problem}: {significant(row.microseconds)} µs, {significant(row.gb_per_s)} GB/s"]
    if row.of_limit is not None:
        parts.append(f"{row.of_limit:.0%} of the limit")
    ratio = selection.ratio(row)
    if ratio is not None:
        parts.append(f"{ratio_text(ratio)} × {selection.baseline}")
    if row.chosen:
        parts.append(f"by {row.chosen}")
    return ", ".join([*parts, *row.flags])
