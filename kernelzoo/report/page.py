"""The report as one HTML page, which contains all that it shows and fetches nothing.

Results files are untrusted: every text is escaped or set as text, and no other script or request is allowed.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from kernelzoo import __version__
from kernelzoo.files import printable, write_atomically
from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report import cards, explorer, looks, notes, result_tables, sections, short_forms
from kernelzoo.report.page_changes import differences
from kernelzoo.report.results import ComparableRows, Results, Row
from kernelzoo.report.table import WORDS, Cell, Table

VENDOR = (("vendor/d3.min.js", "vendor/LICENSE.d3"), ("vendor/plot.umd.min.js", "vendor/LICENSE.plot"))
"""D3 7.9.0 and Observable Plot 0.6.17 from npm (web/vendor/README.md), each with its licence."""

OURS = ("state.js", "charts.js", "tables.js", "page.js")

UNITS = {"mhz": " MHz", "c": " °C", "w": " W", "s": " s"}
"""The unit of a fact about the device's state, by the suffix of the fact's name."""


@dataclass(frozen=True)
class GroupSection:
    """The part of the page about one group of rows."""

    id: str
    heading: str
    facts: Sequence[tuple[str, str]]
    runs: Table
    notes: Sequence[str]
    """Explanations of the marks in its tables."""
    summaries: Sequence[Table]
    short: Sequence[Table]
    """The scores of short forms; see :mod:`kernelzoo.report.short_forms`."""


def write_page(results: Results, path: Path, *, against: Results | None = None, title: str) -> None:
    """Write the whole report of ``results`` into one file, with the changes since the results ``against``.

    The same results give the same file. Raises OSError if it can't be written.
    """
    scripts = [f"/*!\n{_read_web_file(licence)}*/\n{_read_web_file(name)}" for name, licence in VENDOR]
    scripts += map(_read_web_file, OURS)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"body": _html_rows, "heads": _table_headers}
    styles = looks.marker_styles(row for group in results.groups if group.clock not in OF_CALLS for row in group.rows)
    data = explorer.build_explorer_data(results, styles)
    html = environment.from_string(_read_web_file("page.html")).render(
        title=printable(title),
        baseline=results.baseline,
        data=explorer.compress_document(data),
        explored=bool(data["groups"]),
        parts=[_describe_group(group, slug) for group, slug in zip(results.groups, results.slugs(), strict=True)],
        cards=[
            replace(one, caption=said, op=said.rpartition(": ")[0]) for said, one in cards.compare_gpus(results).items()
        ],
        cards_note=cards.NOTE,
        breaking=_with_caption(result_tables.contract_breach_table(results), "Timed although it breaks the contract"),
        breaking_note=sections.BREAKING_NOTE,
        failures=_with_caption(result_tables.failure_table(results), "Without a result, and why"),
        differing=results.summary_contradictions(),
        differing_note=sections.DIFFERING_NOTE,
        against=None if against is None else differences(results, against),
        marks=notes.NOTES,
        style=Markup(_read_web_file("page.css")),
        scripts=[Markup(text) for text in scripts],
        hashes=[base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts],
        version=__version__,
    )
    write_atomically(path, html.encode())


def _html_rows(table: Table) -> Markup:
    """Return the rows as HTML, because a template is too slow for 100 000 cells. Each row's first cell is a heading."""
    lines = (f"<tr>{_html(row[0], 0)}{''.join(map(_html, row[1:]))}</tr>\n" for row in table.rows)
    return Markup("".join(lines))


def _table_headers(table: Table) -> list[tuple[str, bool]]:
    """Return each header, and whether its column has numbers."""
    first = table.rows[0] if table.rows else [Cell("")] * len(table.headers)
    return [
        (text, "n" in _css(cell, i).split()) for i, (text, cell) in enumerate(zip(table.headers, first, strict=True))
    ]


def _css(cell: Cell, column: int) -> str:
    return cell.kind or "n" * bool(column) + " best" * cell.best


def _html(cell: Cell, column: int = 1) -> str:
    tag, scope = ("td", "") if column else ("th", " scope=row")  # without quotes, to keep the page small
    kind = f' class="{kind}"' if " " in (kind := _css(cell, column)) else f" class={kind}" if kind else ""
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    return f"<{tag}{scope}{kind}>{escape(cell.text)}{note}</{tag}>"


def _read_web_file(name: str) -> str:
    text = resources.files("kernelzoo.report").joinpath("web", *name.split("/")).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _describe_group(group: ComparableRows, id: str) -> GroupSection:
    facts = [("device", group.device), ("clock", f"{group.clock}: {sections.clocks(group.rows)}")]
    if group.clock not in OF_CALLS:  # the cache matters to kernels only
        facts.append(("cache", group.cache))
    facts += [*sections.device_limits(group.rows), *_conditions(group.rows), *sections.version_ages(group)]
    footers = result_tables.column_footers(group.rows, group.baseline)
    if group.repeated:
        facts.append(("left out", f"{group.repeated} results of older runs; a ratio may compare two runs"))
    return GroupSection(
        id=id,
        heading=group.label,
        facts=facts,
        runs=_runs_table(group),
        notes=[*notes.explain_marks([row.marks for row in group.rows]), *(text.replace("`", "") for text in footers)],
        summaries=[_summary_table(group, op) for op in group.operations()],
        short=list(_short_form_tables(group)) if group.clock not in OF_CALLS else [],
    )


def _runs_table(group: ComparableRows) -> Table:
    lines = [
        [
            Cell(run.file),
            *(Cell(text, kind=WORDS) for text in (run.date_to_minute, run.commit or "unknown")),
            Cell(", ".join(sorted({row.shape_set for row in rows})), kind=WORDS),
            Cell(str(len(rows))),
            Cell(sections.sample_count_text(rows)),
        ]
        for run, rows in group.runs()
    ]
    headers = ["file", "measured", "commit", "shapes", "results", "samples each"]
    return Table(headers, lines, caption="Files")


def _conditions(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Return the facts of the device's state over all rows, by name: the range of numbers, or all texts."""
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


def _summary_table(group: ComparableRows, op: str) -> Table:
    tables = {"submit": result_tables.submit_time_table, "call": result_tables.call_time_table}
    table = tables.get(group.clock, result_tables.summary_table)(group.select(op))
    return replace(table, caption=f"{op}: the fastest first", op=op)


def _short_form_tables(group: ComparableRows) -> Iterator[Table]:
    """Yield a table for each operation with forms that were measured by their own names."""
    named = short_forms.forms_of(row for row in group.rows if not row.chosen_form)
    for op, forms in named.items():
        yield replace(short_forms.by_language("language", forms), caption=f"{op}: the score of short forms", op=op)


def _with_caption(table: Table, caption: str) -> Table | None:
    """Return the table with a caption, or None if it is empty."""
    return replace(table, caption=caption) if table.rows else None
