"""The report as one page of HTML: everything is in the file, and it fetches nothing.

Results files are untrusted: the template escapes every text, plotly gets only names and numbers, and the page's own
policy allows no other script and no request.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from kernelzoo import __version__
from kernelzoo.files import printable, write_whole
from kernelzoo.report import compare, notes, page_tables, plots, sections
from kernelzoo.report.page_cells import Grid
from kernelzoo.report.page_changes import differences
from kernelzoo.report.page_figures import DASHES, SYMBOLS, Plot, plot_of
from kernelzoo.report.results import Group, Results, Selection


@dataclass(frozen=True)
class Subject:
    """The part of the page about one operation and dtype."""

    id: str
    heading: str
    plot: Plot
    grids: Sequence[Grid]
    all: Grid


@dataclass(frozen=True)
class Part:
    """The part of the page about one group."""

    id: str
    heading: str
    facts: Sequence[tuple[str, str]]
    runs: Grid
    notes: Sequence[str]
    """What the marks in its tables mean."""
    summaries: Sequence[Grid]
    scores: Sequence[Grid]
    gaps: Sequence[Grid]
    """Lists of problems, closed at first."""
    subjects: Sequence[Subject]
    remarks: Grid | None


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
        breaking=page_tables.breaking(results),
        breaking_note=sections.BREAKING_NOTE,
        failures=page_tables.failures(results),
        differing=results.differing(),
        differing_note=sections.DIFFERING_NOTE,
        against=None if against is None else differences(results, against),
        style=Markup(style),
        scripts=[Markup(text) for text in scripts],
        hashes=[base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts],
        dashes=DASHES,
        symbols=SYMBOLS,
        version=__version__,
    )
    write_whole(path, html.encode())


def _part(group: Group, id: str, looks: Mapping[str, plots.Style]) -> Part:
    subjects: list[Subject] = []
    if group.clock != "submit":
        for op in group.operations():
            for dtype in group.dtypes(op):
                subjects.append(_subject(group.select(op, dtype), f"{id}-{len(subjects) + 1}", looks))
    facts = [("device", group.device), ("clock", f"{group.clock}: {sections.clocks(group.rows)}")]
    if group.clock != "submit":  # where the cache does not matter
        facts.append(("cache", group.cache))
    facts += [*sections.limits(group.rows), *page_tables.conditions(group.rows), *sections.versions(group.rows)]
    if group.repeated:
        facts.append(("left out", f"{group.repeated} results of older runs; a ratio may be of two runs"))
    return Part(
        id=id,
        heading=group.label,
        facts=facts,
        runs=page_tables.runs(group),
        notes=notes.lines([row.marks for row in group.rows]),
        summaries=[page_tables.summary(group, op, looks) for op in group.operations()],
        scores=page_tables.scores(group, "score"),
        gaps=[grid for kind in ("shortfall", "behind", "variants") for grid in page_tables.scores(group, kind)],
        subjects=subjects,
        remarks=page_tables.remarks(group),
    )


def _subject(selection: Selection, id: str, looks: Mapping[str, plots.Style]) -> Subject:
    first = selection.rows[0]
    comparisons = compare.to_baseline(selection)
    grids = [
        grid
        for grid in (page_tables.heat(selection, looks), page_tables.ratios(selection, comparisons, looks))
        if grid is not None
    ]
    return Subject(
        id=id,
        heading=f"{first.op}, {first.problem.dtype}",
        plot=plot_of(selection, looks),
        grids=grids,
        all=page_tables.everything(selection, comparisons, looks),
    )
