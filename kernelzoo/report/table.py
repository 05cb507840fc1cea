"""One table, written as Markdown or as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """Plain text in a table; ``best`` marks it as the best of its row."""

    text: str
    best: bool = False
    id: str = ""
    """The implementation that the text names, since the text may hold more than its id."""


@dataclass(frozen=True)
class Table:
    """A row of headers and rows of as many cells. The first column holds names, the others figures."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        lines = [
            self._line(map(escape, self.headers)),
            self._line(":--" if i == 0 else "--:" for i in range(len(self.headers))),
        ]
        for row in self.rows:
            lines.append(self._line(f"**{escape(cell.text)}**" if cell.best else escape(cell.text) for cell in row))
        return "\n".join(lines)

    def text(self) -> str:
        """Aligned columns; the best of a row bears a star."""
        lines = [list(self.headers), *([cell.text + "*" * cell.best for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        first, *others = widths
        return "\n".join(
            "  ".join([line[0].ljust(first), *map(str.rjust, line[1:], others)]).rstrip() for line in lines
        )

    @staticmethod
    def _line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"


def significant(value: float) -> str:
    """Three significant digits, and every digit before the point."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def escape(text: str) -> str:
    """Text that Markdown shows as it is: no emphasis, link, HTML, comment marker or new column comes of it."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|#~$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
