"""One table of a report, as Markdown or as plain text."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernelzoo.terminal import GAP, lay_out_table


@dataclass(frozen=True)
class Cell:
    """Plain text in a table; ``best`` marks it as the best of its row."""

    text: str
    best: bool = False
    id: str = ""
    """The implementation's id, because the text may contain more than the id."""
    note: str = ""
    """A second, smaller line on the page; in Markdown it follows the text."""
    kind: str = ""
    """The CSS classes on the page. By default a first cell has none, and others are numbers."""

    @property
    def markdown(self) -> str:
        text = escape(f"{self.text}; {self.note}" if self.note else self.text)
        return f"**{text}**" if self.best else text


@dataclass(frozen=True)
class Table:
    """Headers, and rows with the same number of cells. The first column has names, the others numbers."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    spare: Sequence[str] = ()
    """Headers of columns that a narrow terminal drops, the least needed first."""
    matrix: bool = False
    """Whether a narrow terminal shows the columns in several parts, because all but the first are alike."""
    caption: str = ""
    op: str = ""
    """Its operation; empty for several."""

    def markdown(self) -> str:
        lines = [
            self._line(map(escape, self.headers)),
            self._line(":--" if i == 0 else "--:" for i in range(len(self.headers))),
        ]
        lines += [self._line(cell.markdown for cell in row) for row in self.rows]
        return "\n".join(lines)

    def text(self, width: int = 0) -> str:
        """Return aligned text with a star at the best cell of a row. A ``width`` of 0 is no limit."""
        rows = [[cell.text + "*" * cell.best for cell in row] for row in self.rows]
        if not self.matrix or not width:
            fitted = lay_out_table(self.headers, rows, width or 10**6, range(1, len(self.headers)), self.spare)
            return "\n".join([*fitted.head, *(line for lines in fitted.rows for line in lines), *fitted.notes])
        sizes = [max(map(len, column)) + GAP for column in zip(self.headers, *rows, strict=True)]
        parts, part = [], [0]
        for index in range(1, len(sizes)):
            if len(part) > 1 and sum(sizes[i] for i in [*part, index]) - GAP > width:
                parts.append(part)
                part = [0]
            part.append(index)
        made = [Table([self.headers[i] for i in p], [[row[i] for i in p] for row in self.rows]) for p in (*parts, part)]
        return "\n\n".join(one.text(width) for one in made)

    @staticmethod
    def _line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"


BLANK = Cell("-")

WORDS = "words"
"""The kind of a cell with words in a column that is not the first."""


def to_cell(value: float | None, text: Callable[[float], str] = "{:.2f}".format) -> Cell:
    """Return a cell with a formatted number, or a blank cell for None."""
    return BLANK if value is None else Cell(text(value))


def format_number(value: float) -> str:
    """Format a number with three significant digits: at most two decimals, and all digits before the point."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def format_three_digits(value: float) -> str:
    """Format a number as :func:`format_number` does, but give small numbers three significant digits too."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def ratio_text(value: float) -> str:
    """Format a ratio with two decimals, or near 1 with three to show small differences. It may be infinite or NaN."""
    if value >= 1e6:
        return f"{value:.0e}"
    return f"{value:.3f}" if 0.9 <= value < 1.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def escape(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged: no emphasis, links, HTML, comments or new columns."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|#~$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
