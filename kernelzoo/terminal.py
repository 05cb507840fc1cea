"""Fits tables into a terminal.

No cell is ever cut. A table that is too wide first wraps its prose, then drops spare columns. At last it shows each row
as a block of lines.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

GAP = 2
"""Spaces between two columns."""

PROSE = 20
"""Least characters of a column of prose."""

UNLIMITED = 160
"""The width of output that is no terminal: enough for the widest row in a file or a pipe."""


def width() -> int:
    """Width of standard output, or the value of COLUMNS."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


@dataclass(frozen=True)
class FittedTable:
    """The lines of a table that fits a width."""

    head: list[str]
    rows: list[list[str]]
    """The lines of each row."""
    notes: list[str]
    """Notes to print below it."""


def lay_out_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    right: Collection[int] = (),
    spare: Sequence[str] = (),
) -> FittedTable:
    """Lay out a table in lines of at most ``width`` characters, without cutting any word.

    right: the right-aligned columns, whose cells do not wrap. spare: titles of columns to drop, the least needed first.
    Only a word wider than the terminal makes a longer line.
    """
    rows = [[_KEPT.sub("\xa0", cell) for cell in row] for row in rows]
    columns = list(zip(titles, *rows, strict=True))
    least = [_least_width(column, index in right) for index, column in enumerate(columns)]

    def fits(left_out: Collection[int]) -> bool:
        return sum(size + GAP for i, size in enumerate(least) if i not in left_out) - GAP <= width

    left_out = list[int]()
    for index in (titles.index(title) for title in spare if title in titles):
        if not fits(left_out):
            left_out.append(index)
    for index in reversed(left_out):  # some may fit again without the wider ones
        others = [i for i in left_out if i != index]
        if fits(others):
            left_out = others
    kept = [i for i in range(len(titles)) if i not in left_out]
    if not fits(left_out):
        return FittedTable([], [_row_as_block(titles, row, width) for row in rows], [])
    sizes = {i: max(map(len, columns[i])) for i in kept}
    while sum(sizes.values()) + GAP * (len(kept) - 1) > width:
        widest = max((i for i in kept if sizes[i] > least[i]), key=lambda i: sizes[i])
        sizes[widest] -= 1
    head = [*_lines([titles[i] for i in kept], kept, sizes, right), "─" * (sum(sizes.values()) + GAP * (len(kept) - 1))]
    missing = "; ".join(titles[i] for i in left_out)
    notes = wrap_text(f"(a wider terminal also shows: {missing})", width) if missing else []
    return FittedTable(
        head if any(titles) else [], [_lines([row[i] for i in kept], kept, sizes, right) for row in rows], notes
    )


_KEPT = re.compile(r" (?=\S(?: \S)?$)")
"""The space before a mark at the end of a cell, which must not break."""


def _least_width(column: Sequence[str], right: bool) -> int:
    """Return the least width of a column: its longest word or unwrapped cell, and PROSE for longer text."""
    title, *cells = column
    words = [word for text in (title, *([] if right else cells)) for word in text.split(" ")]
    longest = max(map(len, [*words, *(cells if right else ())]))
    return max(longest, min(PROSE, max(map(len, cells), default=0)))


def _lines(cells: Sequence[str], columns: Sequence[int], sizes: dict[int, int], right: Collection[int]) -> list[str]:
    parts_of = [wrap_text(cell, sizes[i]) for cell, i in zip(cells, columns, strict=True)]
    lines = []
    for k in range(max(map(len, parts_of))):
        parts = [part[k] if k < len(part) else "" for part in parts_of]
        aligned = [
            part.rjust(sizes[i]) if i in right else part.ljust(sizes[i]) for part, i in zip(parts, columns, strict=True)
        ]
        lines.append((" " * GAP).join(aligned).replace("\xa0", " ").rstrip())
    return lines


def _row_as_block(titles: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return a row as lines: its name, then each value next to its title."""
    size = max(map(len, titles))
    lines = [row[0].replace("\xa0", " ")]
    for title, cell in zip(titles[1:], row[1:], strict=True):
        if cell:
            first, *more = wrap_text(cell, max(PROSE, width - size - 2 * GAP))
            lines.append(f"{' ' * GAP}{title.ljust(size)}{' ' * GAP}{first}")
            lines += [" " * (size + 2 * GAP) + line for line in more]
    return [line.replace("\xa0", " ").rstrip() for line in lines]


def wrap_text(text: str, width: int) -> list[str]:
    """Return the lines of a text, without breaking a word."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
