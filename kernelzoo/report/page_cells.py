"""The parts of the page's tables: cells, grids, and the text and shades of ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from markupsafe import Markup

from kernelzoo.measure.statistics import Verdict
from kernelzoo.report.results import Run
from kernelzoo.report.table import Cell, Table, significant


@dataclass(frozen=True)
class Grid:
    """A table of the page. The first cell of a row is its heading."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    op: str = ""
    """Its operation; empty for several."""

    @property
    def body(self) -> Markup:
        """The rows as HTML. The template would be too slow for a hundred thousand cells."""
        lines = (f"<tr>{_html(row[0], 'th', 'row')}{''.join(map(_html, row[1:]))}</tr>\n" for row in self.rows)
        return Markup("".join(lines))

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """Each header, and whether its column holds numbers."""
        first = self.rows[0] if self.rows else [Cell("")] * len(self.headers)
        return [(text, "number" in cell.kind) for text, cell in zip(self.headers, first, strict=True)]


def _html(cell: Cell, tag: str = "td", scope: str = "") -> str:
    said = "".join(f' {name}="{value}"' for name, value in (("scope", scope), ("class", cell.kind)) if value)
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    return f"<{tag}{said}>{escape(cell.text)}{note}</{tag}>"


def grid_of(caption: str, table: Table) -> Grid:
    def cells(row: Sequence[Cell]) -> list[Cell]:
        return [replace(cell, kind="number" * bool(i) + " best" * cell.best) for i, cell in enumerate(row)]

    return Grid(caption, table.headers, list(map(cells, table.rows)))


def number(text: object) -> Cell:
    """A cell of a column of numbers."""
    return Cell(str(text), kind="number")


def date(run: Run) -> str:
    return run.date.replace("T", " ")[:16] or "unknown"


def verdict_kind(verdict: Verdict | None) -> str:
    return {Verdict.FASTER: "faster", Verdict.SLOWER: "slower"}.get(verdict, "neutral") if verdict else "neutral"


def known(value: float | None) -> str:
    return "" if value is None else significant(value)
