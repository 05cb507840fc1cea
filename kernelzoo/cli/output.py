"""The output of commands: tables on standard output, progress on standard error, or one JSON document."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from kernelzoo.files import printable
from kernelzoo.terminal import UNLIMITED, lay_out_table, wrap_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def console(*, errors: bool = False) -> Console:
    """Return a console without markup. Only the terminal breaks lines, so that printed commands can be copied whole."""
    from rich.console import Console as RichConsole

    class Console(RichConsole):
        def render_str(self, text: str, **options: Any) -> Text:
            """Replace control characters by spaces, because texts from files and kernels may contain them."""
            return super().render_str("\n".join(map(_blank_control_characters, text.split("\n"))), **options)

    plain: dict[str, Any] = {"stderr": errors, "markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
    found = Console(**plain)
    return found if found.is_terminal or "COLUMNS" in os.environ else Console(**plain, width=UNLIMITED)


def only_this_thread_prints() -> AbstractContextManager[object]:
    """A context in which only this thread prints to standard output. Other threads print to standard error."""
    return redirect_stdout(cast(TextIO, _ThreadStream(sys.stdout, threading.current_thread())))


class _ThreadStream:
    def __init__(self, stream: TextIO, thread: threading.Thread) -> None:
        self._stream, self._thread = stream, thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream if threading.current_thread() is self._thread else sys.stderr, name)


def _blank_control_characters(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line)


@dataclass
class Table:
    """A table for a terminal; :func:`show` prints it."""

    columns: Sequence[str]
    """Titles. One that begins with ``>`` is right-aligned."""
    optional: Sequence[str] = ()
    """Titles of columns that a narrow terminal drops, the least needed first."""
    rows: list[list[str]] = field(default_factory=list)
    styles: list[str | None] = field(default_factory=list)

    def add_row(self, *cells: str, style: str | None = None) -> None:
        self.rows.append([_blank_control_characters(cell.replace("\n", " ")) for cell in cells])
        self.styles.append(style)


def make_table(*columns: str, optional: Sequence[str] = ()) -> Table:
    """Return an empty table. Without titles it has no heading."""
    return Table([_blank_control_characters(column) for column in columns], optional)


def show(console: Console, table: Table) -> None:
    """Print a table in the terminal's width; see :func:`kernelzoo.terminal.lay_out_table`."""
    right = [index for index, column in enumerate(table.columns) if column.startswith(">")]
    titles = [column.removeprefix(">") for column in table.columns]
    fitted = lay_out_table(titles, table.rows, console.width, right, table.optional)
    for line in fitted.head:
        console.print(line, style="bold")
    # Print rows of one style together, since each call takes 0.2 ms.
    for style, rows in groupby(zip(fitted.rows, table.styles, strict=True), lambda row: row[1]):
        console.print("\n".join(line for lines, _ in rows for line in lines), style=style)
    for line in fitted.notes:
        console.print(line, style="dim")


def print_note(console: Console, text: str) -> None:
    """Print prose, wrapped to the terminal's width."""
    for line in wrap_text(text, console.width):
        console.print(line)


def print_json(document: dict[str, Any]) -> None:
    """Print the document as JSON on standard output."""
    print(json.dumps(replace_nonfinite(document), indent=1))


def replace_nonfinite(value: Any) -> Any:
    """Return a JSON value with None for infinity and NaN."""
    if isinstance(value, dict):
        return {key: replace_nonfinite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace_nonfinite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


BRIEF = 400
"""The maximum number of characters of a printed reason. The JSON and the results file have the complete text."""


def shorten_reason(text: str) -> str:
    """Put a text on one line. Of a long text, keep only the beginning and the end."""
    line = printable(text)
    if len(line) <= BRIEF:
        return line
    return f"{line[: BRIEF // 2].rstrip()} ... {line[-BRIEF // 2 :].lstrip()}"


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits, tiny and huge ones with an exponent, and None as a dash."""
    if value is None:
        return "-"
    if not 1e-4 <= value < 1e8:
        return f"{value:.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(value)))
    return f"{value:.{places}f}"


def format_interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Format ``[low, high]``. Return "" if an end is None or not finite, or if high / low > 10,000."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or 0 < low < high / 1e4:
        return ""
    return f" [{number(low, digits)}, {number(high, digits)}]"


def report_interruption(done: str, to: Path | None, *more: str) -> int:
    """Print after Ctrl-C what was done, such as "3 of 9 cases", and whether it is saved. Returns the exit status."""
    kept = f"kept in {to}" if to and to.exists() else "nothing is kept" + ("" if to else ", as no -o names a file")
    console(errors=True).print("; ".join([f"interrupted after {done}", kept, *more]))
    return 130


def print_unavailable(unavailable: Mapping[str, str], missing: Sequence[str]) -> None:
    """Print why ids can't run on this machine: reasons in ``missing`` as errors, other reasons with the skipped ids."""
    for reason in dict.fromkeys(unavailable.values()):
        if reason in missing:
            console(errors=True).print(f"error: {shorten_reason(reason)}")
        else:
            without = ids_or_count([id for id, why in unavailable.items() if why == reason])
            console().print(f"skipped {without}: {shorten_reason(reason)}", style="dim")


def ids_or_count(ids: Sequence[str]) -> str:
    """Return up to three ids as text. If there are more, return only their number."""
    return ", ".join(ids) if len(ids) <= 3 else f"{len(ids)} implementations"
