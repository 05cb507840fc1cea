"""The report as one page of HTML: everything is in the file, and it fetches nothing.

Results files are untrusted: the template escapes every text, plotly is given none but names and numbers, and the page's
own policy lets no other script run and no request leave.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from kernelzoo import __version__
from kernelzoo.files import printable, write_whole
from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import compare, plots, score, sections
from kernelzoo.report.compare import Change, Comparison
from kernelzoo.report.results import Group, Problem, Results, Row, Run, Selection, geometric_mean
from kernelzoo.report.table import Table, significant

FEW = 25
"""Lines of a table that is sorted by what matters most; the whole is in a table to open."""

LONG = 1000
"""Characters of a reason that are shown."""

UNITS = {"mhz": " MHz", "c": " °C", "w": " W", "s": " s"}
"""How the name of a device's state ends, and the unit that this says."""

Shade = tuple[int, int, int]
WORST, BEST = (246, 240, 228), (84, 160, 222)  # share of the limit; black text is readable on both, and in between
FASTER, EQUAL, SLOWER = (72, 178, 160), (247, 247, 247), (234, 150, 78)  # ratio to the baseline, the same


@dataclass(frozen=True)
class Td:
    """One cell of a table in the page."""

    text: str
    note: str = ""
    """A second, smaller line."""
    hover: str = ""
    kind: str = ""
    """Its CSS classes."""
    shade: str = ""
    """Its background, on which the text is black."""
    swatch: str = ""
    """The colour that the implementation has in the figures."""


@dataclass(frozen=True)
class Grid:
    """A table of the page; the first cell of a row is its heading."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Td]]
    kind: str = ""

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """Each header, and whether figures stand below it."""
        first = self.rows[0] if self.rows else [Td("")] * len(self.headers)
        return [(text, "number" in cell.kind) for text, cell in zip(self.headers, first, strict=True)]


@dataclass(frozen=True)
class Key:
    """One implementation in the legend of a figure."""

    name: str
    style: plots.Style
    shown: bool


@dataclass(frozen=True)
class Plot:
    """A figure, and the words that say the same."""

    json: Markup
    label: str
    caption: str
    legend: Mapping[str, Sequence[Key]]
    """By backend."""


@dataclass(frozen=True)
class Subject:
    """What the page says of one operation and dtype."""

    id: str
    heading: str
    plot: Plot
    grids: Sequence[Grid]
    all: Grid


@dataclass(frozen=True)
class Part:
    """What the page says of one group."""

    id: str
    heading: str
    facts: Sequence[tuple[str, str]]
    runs: Grid
    summaries: Sequence[Grid]
    scores: Sequence[Grid]
    gaps: Sequence[Grid]
    """Lists of problems, for whoever asks for them."""
    subjects: Sequence[Subject]
    remarks: Grid | None


@dataclass(frozen=True)
class Difference:
    """What the page says of one group's change since an older run."""

    heading: str
    differing: Grid | None
    summary: Grid
    changed: Sequence[Grid]
    all: Grid | None
    only: Sequence[tuple[str, Sequence[tuple[str, str]]]]


def write_page(results: Results, path: Path, *, against: Results | None = None, title: str) -> None:
    """Write the whole report of ``results`` into one file, and what changed since ``against``.

    The same results give the same file. Raises OSError if it can't be written.
    """
    style, script, template = (
        resources.files("kernelzoo.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html")
    )
    scripts = [text.replace("\r\n", "\n") for text in (get_plotlyjs(), script)]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    looks = plots.styles(row for group in results.groups for row in group.rows)
    html = environment.from_string(template).render(
        title=printable(title),
        baseline=results.baseline,
        parts=[_part(group, f"group-{i}", looks) for i, group in enumerate(results.groups, start=1)],
        breaking=_breaking(results),
        breaking_note=sections.BREAKING_NOTE,
        failures=_failures(results),
        against=None if against is None else _against(results, against),
        style=Markup(style),
        scripts=[Markup(text) for text in scripts],
        hashes=[base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts],
        dashes=DASHES,
        symbols=SYMBOLS,
        version=__version__,
    )
    write_whole(path, html.encode())


DASHES = {
    "solid": "none",
    "dash": "7 3",
    "dot": "2 2",
    "dashdot": "7 2 2 2",
    "longdash": "11 3",
    "longdashdot": "10 2 2 2",
}
"""plotly's dashes as SVG has them, for the legend."""

SYMBOLS = {
    "circle": "M13,6a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "square": "M13,2h8v8h-8z",
    "diamond": "M17,1l5,5l-5,5l-5,-5z",
    "triangle-up": "M17,1l5,9h-10z",
    "triangle-down": "M17,11l5,-9h-10z",
    "x": "M14,1l3,3l3,-3l2,2l-3,3l3,3l-2,2l-3,-3l-3,3l-2,-2l3,-3l-3,-3z",
    "star": "M17,0.5l1.5,3.8l4,0.2l-3.1,2.6l1.1,4l-3.5,-2.2l-3.5,2.2l1.1,-4l-3.1,-2.6l4,-0.2z",
}
"""plotly's markers as SVG has them, for the legend."""


def shown(selection: Selection) -> list[str]:
    """What a reader sees first: the baseline and the choice of each backend; all, where that leaves less than two."""
    names = [name for name in selection.names if name == selection.baseline or name.endswith("/auto")]
    return names if len(names) > 1 else selection.names


def _part(group: Group, id: str, looks: Mapping[str, plots.Style]) -> Part:
    subjects: list[Subject] = []
    if group.clock != "submit":
        for op in group.operations():
            for dtype in group.dtypes(op):
                subjects.append(_subject(group.select(op, dtype), f"{id}-{len(subjects) + 1}", looks))
    facts = [("device", group.device), ("clock", f"{group.clock}: {sections.clocks(group.rows)}")]
    if group.clock != "submit":  # which no data's place matters to
        facts.append(("cache", group.cache))
    facts += [*sections.limits(group.rows), *_conditions(group.rows), *sections.versions(group.rows)]
    if group.repeated:
        facts.append(("left out", f"{group.repeated} results of older runs; a ratio may therefore span two runs"))
    return Part(
        id=id,
        heading=group.label,
        facts=facts,
        runs=_runs(group),
        summaries=[_summary(group, op, looks) for op in group.operations()],
        scores=_scores(group, "score"),
        gaps=[grid for kind in ("shortfall", "behind", "variants") for grid in _scores(group, kind)],
        subjects=subjects,
        remarks=_remarks(group),
    )


def _runs(group: Group) -> Grid:
    lines = [
        [
            Td(run.file),
            Td(_date(run)),
            Td(run.commit or "unknown"),
            Td(", ".join(sorted({row.shape_set for row in rows}))),
            Td(str(len(rows)), kind="number"),
            Td(sections.samples(rows), kind="number"),
        ]
        for run, rows in group.runs()
    ]
    return Grid("Files", ["file", "measured", "commit", "shapes", "results", "samples each"], lines)


def _date(run: Run) -> str:
    return run.date.replace("T", " ")[:16] or "unknown"


def _conditions(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """The device's state over all rows, by name: the range of numbers, and every text."""
    found: dict[str, set[str | float]] = {}
    for row in rows:
        for name, value in row.condition:
            if name != "at_s":  # when it was read, which is no state
                found.setdefault(name, set()).add(value)
    facts = []
    for name, values in found.items():
        what, _, unit = name.rpartition("_")
        if unit not in UNITS:
            what, unit = name, ""
        numbers = sorted(value for value in values if isinstance(value, float))
        texts = sorted(value for value in values if isinstance(value, str))
        if numbers:
            texts.append(" to ".join(dict.fromkeys((f"{numbers[0]:g}", f"{numbers[-1]:g}"))) + UNITS.get(unit, ""))
        facts.append((what.replace("_", " "), ", ".join(texts)))
    return facts


def _summary(group: Group, op: str, looks: Mapping[str, plots.Style]) -> Grid:
    selection = group.select(op)
    table = (sections.submit_table if group.clock == "submit" else sections.summary_table)(selection)
    table = replace(table, headers=[header.replace(", us", ", µs") for header in table.headers])
    grid = _grid(f"{op}: the fastest first", table)
    ratio = table.headers.index(f"time / {selection.baseline}")
    lines = []
    for line, (named, *_) in zip(grid.rows, table.rows, strict=True):
        name, cell = line[0], line[ratio]
        name = replace(name, swatch=looks[named.id].colour)
        cell = replace(cell, shade=_ratio_shade(float(cell.text))) if cell.text != sections.BLANK.text else cell
        lines.append([name, *line[1:ratio], cell, *line[ratio + 1 :]])
    return replace(grid, rows=lines)


def _scores(group: Group, kind: str) -> list[Grid]:
    made = sections.SCORES[kind]
    tables = [(op, made.table(group, op)) for op in group.operations() if group.clock != "submit"]
    return [_grid(f"{op}: {made.caption}", table) for op, table in tables if table is not None]


def _grid(caption: str, table: Table) -> Grid:
    return Grid(
        caption,
        table.headers,
        [
            [Td(cell.text, kind=("number" if i else "") + (" best" if cell.best else "")) for i, cell in enumerate(row)]
            for row in table.rows
        ],
    )


def _subject(selection: Selection, id: str, looks: Mapping[str, plots.Style]) -> Subject:
    first = selection.rows[0]
    comparisons = compare.to_baseline(selection)
    grids = [grid for grid in (_heat(selection, looks), _ratios(selection, comparisons, looks)) if grid is not None]
    return Subject(
        id=id,
        heading=f"{first.op}, {first.problem.dtype}",
        plot=_plot(selection, looks),
        grids=grids,
        all=_all(selection, comparisons, looks),
    )


def _plot(selection: Selection, looks: Mapping[str, plots.Style]) -> Plot:
    visible = shown(selection)
    drawn = plots.points(selection)
    legend: dict[str, list[Key]] = {}
    for name in selection.names:
        rows = selection.of(name)
        if any(row.problem in drawn for row in rows):
            legend.setdefault(rows[0].backend, []).append(Key(name, looks[rows[0].id], name in visible))
    first = selection.rows[0]
    with_limit = any(row.of_limit is not None for row in selection.rows)
    what = "GB/s" + (" and share of the limit" if with_limit else "") + f" by {plots.x_title(selection)}"
    fastest = _fastest(selection, visible)
    caption = [f"{what[0].upper()}{what[1:]}; GB/s on a logarithmic scale."]
    if not selection.is_sweep:
        caption.append("From short rows to long ones.")
    if with_limit:
        caption.append("Dotted: the limit, which counts the smallest launch too.")
    off = [str(problem) for problem in selection.problems if problem not in drawn]
    if off:
        caption.append(f"Not of this sweep, and in the tables below: {', '.join(off)}.")
    caption.append(fastest)
    return Plot(
        json=Markup(plots.draw(selection, looks, visible).to_json()),
        label=f"{first.op}, {first.problem.dtype}: {what}, a line for each of {sum(map(len, legend.values()))} "
        f"implementations. {fastest} The numbers are in the tables below.",
        caption=" ".join(caption),
        legend=legend,
    )


def _fastest(selection: Selection, names: Sequence[str]) -> str:
    """Who wins how often, in words."""
    wins: Counter[str] = Counter()
    for problem in selection.problems:
        found = (selection.cells.get((problem, name)) for name in names)
        rows = [row for row in found if row is not None and not row.breaks]
        if rows:
            wins[min(rows, key=lambda row: row.seconds).name] += 1
    counts = ", ".join(f"{name} on {count}" for name, count in wins.most_common())
    return f"Of those shown at first, the fastest: {counts} of {wins.total()} shapes." if counts else ""


def _heat(selection: Selection, looks: Mapping[str, plots.Style]) -> Grid | None:
    """Implementation by shape: the share of the limit in percent, or the ratio to the baseline without a limit."""
    problems = plots.by_length(selection.readable())
    with_limit = any(row.of_limit is not None for row in selection.rows)
    value: Callable[[Row], float | None] = (lambda row: row.of_limit) if with_limit else selection.ratio
    if not any(value(row) is not None for row in selection.rows):
        return None
    lines = []
    for name in selection.names:
        rows = selection.of(name)
        line = [Td(score.marked_name(rows), swatch=looks[rows[0].id].colour)]
        for problem in problems:
            row = selection.cells.get((problem, name))
            number = None if row is None else value(row)
            if row is None or number is None:
                line.append(Td("", hover=f"{name} has no result on {problem}", kind="none"))
                continue
            shade = _mix(WORST, BEST, min(number, 1.0)) if with_limit else _ratio_shade(number)
            text = f"{100 * number:.0f}" if with_limit else _ratio(number)
            line.append(Td(text, hover=_hover(selection, row), shade=shade, kind="flagged" if row.flags else ""))
        lines.append(line)
    what = "Share of the limit reached, in percent" if with_limit else f"Time over that of {selection.baseline}"
    note = "" if len(problems) == len(selection.problems) else "; of a long sweep some shapes, all are in the figure"
    marked = "; a corner marks a flagged result" if any(row.flags for row in selection.rows) else ""
    return Grid(f"{what}: implementation by shape{note}{marked}", ["", *map(str, problems)], lines, "heat")


def _ratios(
    selection: Selection, comparisons: Mapping[tuple[Problem, str], Comparison], looks: Mapping[str, plots.Style]
) -> Grid | None:
    """What is shown at first, beside the baseline: ratio, interval and verdict on each shape."""
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
        _ratio(comparison.ratio) + (f" {verdict.value}" if verdict else ""),
        note=_interval(comparison),
        kind=f"number {_verdict_kind(verdict)}",
    )


def _all(
    selection: Selection, comparisons: Mapping[tuple[Problem, str], Comparison], looks: Mapping[str, plots.Style]
) -> Grid:
    """Every row with all that is known of it; a column that would be empty is left out."""
    headers = [
        "implementation",
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
                "" if ratio is None else _ratio(ratio),
                "" if comparison is None else _interval(comparison),
            ]
            later = [_known(v) for v in (row.copy_us, row.submit_us, row.first_call_ms, row.cupti_us)]
            later += [str(row.samples), str(row.repeated_rounds or "")]
            lines.append(
                [
                    Td(row.marked_name, swatch=looks[row.id].colour),
                    Td(str(problem)),
                    *(Td(text, kind="number") for text in figures),
                    Td(verdict.value if verdict else "", kind=_verdict_kind(verdict)),
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


def _remarks(group: Group) -> Grid | None:
    """The flags of rows, and the problems whose rounds were repeated, each with where."""
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
        "Flags: what to know of some results",
        ["flag", "implementation", "results", "where"],
        [
            [Td(flag), Td(id), Td(str(len(where)), kind="number"), Td("; ".join(where), kind="text")]
            for (flag, id), where in sorted(found.items())
        ],
    )


def _breaking(results: Results) -> Grid | None:
    """What the mark beside a name stands for."""
    table = sections.breaking_table(results)
    return _grid("Timed, and why it breaks the contract", table) if table.rows else None


def _failures(results: Results) -> Grid | None:
    if not results.failed:
        return None
    table = sections.failure_table(results)
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


def _against(new: Results, old: Results) -> tuple[Sequence[str], Sequence[Difference]]:
    """What can't be compared, in words, and what can."""
    found = compare.changes(new, old)
    alone = [
        f"{group.label}: only in the {name} results"
        for name, groups, others in (("newer", new.groups, old.groups), ("older", old.groups, new.groups))
        for group in groups
        if group.label not in {other.label for other in others}
    ]
    return alone, [_difference(change) for change in found]


def _difference(change: Change) -> Difference:
    comparisons = change.comparisons
    of_baseline = {(c.row.op, c.row.problem): c.ratio for c in comparisons if c.row.name == change.new.baseline}
    slower = [c for c in comparisons if c.verdict is Verdict.SLOWER]
    faster = [c for c in reversed(comparisons) if c.verdict is Verdict.FASTER]

    def grid(caption: str, of: Sequence[Comparison]) -> Grid:
        headers = ["implementation", "problem", "before, µs", "now, µs", "now / before", "95 % interval", "verdict"]
        lines = []
        for c in of:
            base = of_baseline.get((c.row.op, c.row.problem))
            verdict = c.verdict
            lines.append(
                [
                    Td(c.row.id),
                    Td(f"{c.row.problem.dtype} {c.row.problem}"),
                    *(Td(significant(row.microseconds), kind="number") for row in (c.base, c.row)),
                    Td(_ratio(c.ratio), kind="number", shade=_ratio_shade(c.ratio)),
                    Td(_interval(c), kind="number"),
                    Td(verdict.value if verdict else "", kind=_verdict_kind(verdict)),
                    Td("" if base is None else _ratio(c.ratio / base), kind="number"),
                ]
            )
        return Grid(caption, [*headers, f"the same beside {change.new.baseline}"], lines)

    def few(word: str, of: Sequence[Comparison]) -> list[Grid]:
        if not of:
            return []
        return [grid(f"{word}: {len(of)}" + (f", the first {FEW}" if len(of) > FEW else ""), of[:FEW])]

    return Difference(
        heading=change.new.label,
        differing=_differing(change),
        summary=_change_summary(change),
        changed=[*few("Slower", slower), *few("Faster", faster)],
        all=grid(f"Every comparison, the worst slowdown first ({len(comparisons)})", comparisons)
        if comparisons
        else None,
        only=[
            (f"Only in the {name} results: {len(rows)}", _by_id(rows))
            for name, rows in (("newer", change.only_new), ("older", change.only_old))
            if rows
        ],
    )


def _by_id(rows: Iterable[Row]) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.id, row.problem)):
        found.setdefault(row.id, []).append(f"{row.problem.dtype} {row.problem}")
    return [(id, "; ".join(problems)) for id, problems in found.items()]


def _differing(change: Change) -> Grid | None:
    """What was not the same in the two runs, apart from the results."""

    def facts(group: Group) -> dict[str, str]:
        runs = [run for run, _ in group.runs()]
        found = {"file": ", ".join(run.file for run in runs), "measured": ", ".join(map(_date, runs))}
        found |= {"commit": ", ".join(run.commit or "unknown" for run in runs), "clock": sections.clocks(group.rows)}
        return found | dict(sections.limits(group.rows)) | dict(sections.versions(group.rows))

    old, new = facts(change.old), facts(change.new)
    lines = [
        [Td(name), Td(old.get(name, "-")), Td(new.get(name, "-"))]
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return Grid("What differs between the two runs", ["", "before", "now"], lines) if lines else None


def _change_summary(change: Change) -> Grid:
    lines = []
    for op in sorted({c.row.op for c in change.comparisons}):
        of = [c for c in change.comparisons if c.row.op == op]
        counts = Counter(c.verdict for c in of)
        mean = geometric_mean(c.ratio for c in of)
        base = geometric_mean(c.ratio for c in of if c.row.name == change.new.baseline)
        lines.append(
            [
                Td(op),
                Td(str(len(of)), kind="number"),
                *(Td(str(counts[v]), kind="number") for v in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)),
                Td(str(counts[Verdict.UNCLEAR] + counts[None]), kind="number"),
                Td("" if mean is None else _ratio(mean), kind="number"),
                Td("-" if base is None else _ratio(base), kind="number"),
            ]
        )
    headers = [
        "operation",
        "compared",
        "slower",
        "faster",
        "same",
        "unclear",
        "now / before",
        f"{change.new.baseline} alone",
    ]
    return Grid("In short", headers, lines)


def _hover(selection: Selection, row: Row) -> str:
    parts = [f"{row.name} on {row.problem}: {significant(row.microseconds)} µs, {significant(row.gb_per_s)} GB/s"]
    if row.of_limit is not None:
        parts.append(f"{row.of_limit:.0%} of the limit")
    ratio = selection.ratio(row)
    if ratio is not None:
        parts.append(f"{_ratio(ratio)} × {selection.baseline}")
    return ", ".join([*parts, *row.flags])


def _interval(comparison: Comparison) -> str:
    interval = comparison.interval
    return "" if interval is None else f"{_ratio(interval.low)} to {_ratio(interval.high)}"


def _ratio(value: float) -> str:
    """Two decimals; three where two would hide a difference of a few per cent."""
    return f"{value:.3f}" if 0.9 <= value < 1.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _verdict_kind(verdict: Verdict | None) -> str:
    return {Verdict.FASTER: "faster", Verdict.SLOWER: "slower"}.get(verdict, "neutral") if verdict else "neutral"


def _known(value: float | None) -> str:
    return "" if value is None else significant(value)


def _ratio_shade(ratio: float) -> str:
    """White at 1, and full colour from four times faster or slower."""
    if ratio < 1:
        return _mix(EQUAL, FASTER, (1 / max(ratio, 1 / 4) - 1) / 3)
    return _mix(EQUAL, SLOWER, (min(ratio, 4) - 1) / 3)


def _mix(start: Shade, end: Shade, part: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(start, end, strict=True))
