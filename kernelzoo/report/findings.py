"""The records of checks as tables.

A record's ``format`` names its kind: ``kernelzoo-fuzz/1`` is of the kind ``fuzz``. A record has the command, device,
versions, date and duration, and ``rows`` with a flat object for each check. ``what`` may describe all rows. ``kernelzoo
report`` prints records, or inserts them into a document between ``<!-- results:KIND -->`` and ``<!-- /results -->``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelzoo import files
from kernelzoo.files import printable
from kernelzoo.operations import OPERATIONS
from kernelzoo.report.results import ResultsError
from kernelzoo.report.table import Cell, Table, escape
from kernelzoo.terminal import wrap_text

FORMAT = re.compile(r"kernelzoo-([a-z-]+)/1")

COLUMNS = {
    "aa": (
        *("id", "races", "same", "faster_or_slower", "unclear", "median_us", "spread_%", "sd_%"),
        *("slower_than_before", "too_noisy", "reason"),
    ),
    "accuracy": (
        *("id", "dtype", "values", "wrong", "worst_ulp", "allowed_ulp_there", "mean_ulp", "p9999_ulp"),
        *("worst_family", "worst_length", "same_bits"),
    ),
    "architectures": (
        *("backend", "architecture", "date", "problems", "taken", "refused", "faults", "kernels", "spilling"),
        *("largest_shared_bytes", "shared_bytes_limit", "seconds"),
    ),
    "repeated": ("id", "dtype", "shape", "ours_us", "theirs_us", "ratio", "agrees", "plain_us", "skipped"),
    "fuzz": ("id", "emulator", "cases", "right", "refused", "faults", "failed", "seed", "seconds"),
}
"""The columns to show, for kinds that have too many columns for a table."""

NOTES = {
    "aa": (
        "Each race binds, checks and captures an implementation twice. `spread` is the range of the races' medians, "
        "and `sd` their standard deviation, both in percent of the overall median. `slower than before` counts what "
        "`--against` would call slower than the race before, and `too noisy` races that it would not compare.",
    )
}
"""Paragraphs below the tables of a kind."""


@dataclass(frozen=True)
class CheckRecord:
    """The results of checks from one file: the checks' kind, the device, and a row of texts per check."""

    kind: str
    device: str
    facts: str
    """The duration, the versions and the date."""
    rows: tuple[Mapping[str, str], ...]

    def table(self) -> Table:
        """Return a table of the rows. It has the columns of the record's kind, except empty ones."""
        known = dict.fromkeys(name for row in self.rows for name, value in row.items() if value)
        columns = [name for name in COLUMNS.get(self.kind, known) if name in known]
        lines = [[Cell(row.get(name) or "-") for name in columns] for row in self.rows]
        return Table([name.replace("_", " ") for name in columns], lines)


def markdown_by_kind(record_paths: Sequence[str | Path]) -> dict[str, str]:
    """Return a Markdown block for each kind of record, with its files in the given order. Raises ResultsError."""
    found: dict[str, list[str]] = {}
    for findings in map(load, record_paths):
        parts = f"**{escape(findings.device)}**, {escape(findings.facts)}", findings.table().markdown()
        found.setdefault(findings.kind, []).extend(parts)
    return {kind: "\n\n".join([*parts, *NOTES.get(kind, ())]) for kind, parts in found.items()}


def terminal_text(paths: Sequence[str | Path], width: int) -> str:
    """Return the records' tables as plain text, wrapped to a terminal's width. Raises ResultsError."""
    parts = list[str]()
    for findings in map(load, paths):
        said = f"{findings.kind}: {findings.device}, {findings.facts}"
        notes = [note.replace("`", "") for note in NOTES.get(findings.kind, ())]
        parts += ["\n".join(wrap_text(said, width)), findings.table().text(width)]
        parts += ["\n".join(wrap_text(note, width)) for note in notes]
    return "\n\n".join(parts)


def load(path: str | Path) -> CheckRecord:
    """Read one record. Raises ResultsError."""
    try:
        return _parse_record(files.read_json(Path(path)), Path(path).name)
    except files.FileError as error:
        raise ResultsError(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise ResultsError(f"{path} is no record of checks ({wrong}); report results apart from these") from error


def _parse_record(document: Any, file: str) -> CheckRecord:
    kind = FORMAT.fullmatch(document["format"])
    if kind is None:
        raise ValueError(f"unknown format {document['format']!r}")
    environment, seconds = document["environment"], document.get("seconds")
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    facts = [str(document["what"])] if "what" in document else []
    if seconds is not None:
        facts.append(f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min")
    facts += [versions, f"{document['started'][:16]} ({file})"]
    told = SUMMARIES.get(kind[1], list)(document["rows"])
    rows = tuple({printable(name): _cell_text(value) for name, value in row.items()} for row in told)
    return CheckRecord(kind[1], printable(environment["device"]), printable("; ".join(facts)), rows)


def _count_outcomes_by_section(cases: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Count the outcomes of the load tests in tests/load, for each section of these tests and each backend."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in cases:
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


def _merge_dtypes_without_rounding(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Merge the rows of all dtypes into one for each implementation of an operation that does not round."""
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
    "accuracy": _merge_dtypes_without_rounding,
    "load": _count_outcomes_by_section,
}
"""Summaries for kinds that do not show every row."""


def _cell_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell_text, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return printable(str(value))
