"""What commands print: tables for people on standard output, progress on standard error, or one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelzoo.files import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

NOWHERE = 160
"""Columns of a table that goes to no terminal: enough for the widest row, so that a file or a pipe gets it whole."""


def console(*, errors: bool = False) -> Console:
    """Standard output, or standard error. Brackets and colons in what is printed mean nothing. No line is broken but by
    the terminal itself, since a command in it is to be copied whole."""
    from rich.console import Console as RichConsole

    class Console(RichConsole):
        def render_str(self, text: str, **options: Any) -> Text:
            """What is printed comes from files and kernels too: no control character of theirs reaches the terminal."""
            return super().render_str("\n".join(map(_visible, text.split("\n"))), **options)

    plain: dict[str, Any] = {"stderr": errors, "markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
    found = Console(**plain)
    return found if found.is_terminal else Console(**plain, width=NOWHERE)


def _visible(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line)


def show(console: Console, table: Table) -> None:
    """Print a table, its cells wrapped to the width that there is."""
    console.print(table, soft_wrap=False)


def table(*columns: str) -> Table:
    """An empty table. A column that begins with ``>`` is aligned to the right; unnamed ones have no heading."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=any(columns))
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    return made


def emit(document: dict[str, Any]) -> None:
    """Print the JSON document."""
    print(json.dumps(finite(document), indent=1))


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: an end that an interval does not have is null."""
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


BRIEF = 400
"""Characters of a reason that are printed; the JSON and the results file have all of it."""


def brief(text: str) -> str:
    """On one line, and no longer than is read: of what a compiler says, where it stops and how it ends."""
    line = printable(text)
    if len(line) <= BRIEF:
        return line
    return f"{line[: BRIEF // 2].rstrip()} ... {line[-BRIEF // 2 :].lstrip()}"


def number(value: float | None, digits: int = 3) -> str:
    """To significant digits, without an exponent; a dash for none."""
    if value is None:
        return "-"
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, digits - 1 - math.floor(math.log10(value)))
    return f"{value:.{places}f}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """``[low, high]``, or nothing where too few samples bound it."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f" [{number(low, digits)}, {number(high, digits)}]"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def absent(unavailable: Mapping[str, str], missing: Sequence[str]) -> None:
    """Say what can't run here, each reason once: as an error what was asked for by name (see ``options.missing``), and
    as skipped the rest. ``unavailable`` holds reasons by id."""
    for reason in dict.fromkeys(unavailable.values()):
        if reason in missing:
            console(errors=True).print(f"error: {brief(reason)}")
        else:
            without = some([id for id, why in unavailable.items() if why == reason])
            console().print(f"skipped {without}: {brief(reason)}", style="dim")


def some(ids: Sequence[str]) -> str:
    """A few ids by name, many by their number."""
    return ", ".join(ids) if len(ids) <= 3 else f"{len(ids)} implementations"
