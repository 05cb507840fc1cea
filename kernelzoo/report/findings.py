"""The records of checks as tables: ``python -m kernelzoo.report.findings FILE.json [--insert F.md]``.

A record's ``format`` names its kind (``kernelzoo-fuzz/1`` is of the kind ``fuzz``). It holds the command, the device
and versions, the date and duration, and ``rows``, one flat object for each check. The block of a kind is printed, or
put into a document between ``<!-- results:KIND -->`` and ``<!-- /results -->``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelzoo import files
from kernelzoo.files import printable
from kernelzoo.operations import OPERATIONS
from kernelzoo.report import markers
from kernelzoo.report.results import ResultsError
from kernelzoo.report.table import Cell, Table, escape

FORMAT = re.compile(r"kernelzoo-([a-z]+)/1")

COLUMNS = {
    "accuracy": (
        *("id", "dtype", "values", "wrong", "worst_ulp", "allowed_ulp_there", "mean_ulp", "p9999_ulp"),
        *("worst_family", "worst_length", "same_bits"),
    ),
    "architectures": (
        *("backend", "architecture", "date", "problems", "taken", "refused", "faults", "kernels", "spilling"),
        *("largest_shared_bytes", "shared_bytes_limit", "seconds"),
    ),
    "fuzz": ("id", "emulator", "cases", "right", "refused", "faults", "failed", "seed", "seconds"),
}
"""The columns to show, for kinds with too many for a table."""


@dataclass(frozen=True)
class Findings:
    """One file: its kind, its source, and its rows as text by column."""

    kind: str
    caption: str
    rows: tuple[Mapping[str, str], ...]

    def table(self) -> Table:
        """A line for each row, with the kind's columns that are not empty."""
        known = dict.fromkeys(name for row in self.rows for name, value in row.items() if value)
        columns = [name for name in COLUMNS.get(self.kind, known) if name in known]
        lines = [[Cell(row.get(name) or "-") for name in columns] for row in self.rows]
        return Table([name.replace("_", " ") for name in columns], lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the block of each kind, or put them into a document; returns the exit status."""
    return markers.main("kernelzoo.report.findings", "Report the records of checks.", blocks, argv)


def blocks(paths: Sequence[Path]) -> dict[str, str]:
    """A block for each kind, with its files in the given order. Raises ResultsError."""
    found: dict[str, list[str]] = {}
    for findings in map(load, paths):
        found.setdefault(findings.kind, []).extend([findings.caption, findings.table().markdown()])
    return {kind: "\n\n".join(parts) for kind, parts in found.items()}


def load(path: Path) -> Findings:
    """Read one file. Raises ResultsError."""
    try:
        return _parsed(files.read_json(path), path.name)
    except files.FileError as error:
        raise ResultsError(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise ResultsError(f"{path} is no record of kernelzoo ({wrong})") from error


def _parsed(document: Any, file: str) -> Findings:
    kind = FORMAT.fullmatch(document["format"])
    if kind is None:
        raise ValueError(f"unknown format {document['format']!r}")
    environment, seconds = document["environment"], float(document["seconds"])
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    took = f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min"
    facts = f"{took}; {versions}; {document['started'][:16]} ({file})"
    caption = f"**{escape(printable(environment['device']))}**, {escape(printable(facts))}"
    told = SUMMARIES.get(kind[1], list)(document["rows"])
    rows = tuple({printable(name): _text(value) for name, value in row.items()} for row in told)
    return Findings(kind[1], caption, rows)


def _by_section(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cases checked under load: counts of each outcome by section and backend."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        section, backend = row["section"], row["implementation"].partition("/")[0]
        one = found.setdefault(
            (section, backend),
            {"section": section, "backend": backend, "cases": 0, "passed": 0, "refused": 0, "skipped": 0, "no room": 0}
            | {"unfinished": 0, "failed": 0, "checks": 0, "seconds": 0.0},
        )
        one["cases"] += 1
        one[row["outcome"]] += 1
        one["checks"] += row["count"]
        one["seconds"] += row["seconds"]
        if row["figure"] is not None:
            unit = row["unit"] if row["outcome"] == "passed" else ""
            if unit in ("GiB", "bytes/call"):
                one[f"most {unit}"] = max(row["figure"], one.get(f"most {unit}", row["figure"]))
    return list(found.values())


def _exact_together(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One row for all dtypes of an implementation that does not round: how many results were wrong."""
    found: dict[str, dict[str, Any]] = {}
    others = []
    for row in rows:
        operation = OPERATIONS.get(row["op"])
        if operation is None or operation.rounds:
            others.append(row)
            continue
        one = found.setdefault(row["id"], {"id": row["id"], "dtypes": 0, "values": 0, "wrong": 0, "same_bits": True})
        one["dtypes"] += 1
        one["values"] += row["values"]
        one["wrong"] += row["wrong"]
        one["same_bits"] &= row["same_bits"]
    return others + [one | {"dtype": f"{one['dtypes']} dtypes"} for one in found.values()]


SUMMARIES: dict[str, Callable[[Sequence[Mapping[str, Any]]], list[Mapping[str, Any]]]] = {
    "accuracy": _exact_together,
    "load": _by_section,
}
"""Summaries for kinds that do not show every row."""


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return printable(str(value))


if __name__ == "__main__":
    sys.exit(main())
