"""The results of one problem as rows, for tables and JSON."""

import re
from collections.abc import Sequence
from typing import Any

from kernelzoo.cli import output
from kernelzoo.measure import Problem, record
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.measure.energy import Energy
from kernelzoo.report import notes
from kernelzoo.report.rows import quantiles

Row = dict[str, Any]


def rows(entries: Sequence[Row], failed: Sequence[Row], baseline: str) -> list[Row]:
    """Return the rows of one problem: measured rows, the fastest first, then rows without a result.

    ``entries`` and ``failed`` come from :meth:`kernelzoo.measure.guard.Guard.race`. A ratio is a row's time divided by
    the time of the id ``baseline`` in the same race. Below 1 is faster.
    """
    by_id = {entry["extra_info"]["id"]: entry for entry in entries}
    measured = [_measured_row(entry, by_id.get(baseline)) for entry in entries]
    measured.sort(key=lambda row: float(row["median_us"]))
    return measured + [{"id": f["id"], "outcome": f["outcome"], "reason": f["reason"]} for f in failed]


def _measured_row(entry: Row, baseline: Row | None) -> Row:
    from kernelzoo.measure import statistics

    info, samples = entry["extra_info"], entry["stats"]["data"]
    median = statistics.median_interval(samples)
    row = {
        "id": info["id"],
        "form": info.get("form"),
        "outcome": "measured",
        "median_us": median.mid * 1e6,
        "quantiles_us": quantiles(samples, 1e-6),
        "interval_us": [median.low * 1e6, median.high * 1e6],
        "gb_per_s": info["gb_per_s"],
        "of_limit": info["of_limit"],
        "ratio": None,
        "ratio_interval": None,
        "verdict": None,
        "unclear": "",
        "submit_us": info["submit_us"],
        "first_call_ms": info["first_call_ms"],
        "cupti_us": info["cupti_us"],
        "energy": info.get("energy"),
        "energy_ratio": None,
        "flags": info["flags"],
        "breaks": info.get("breaks"),
        "samples": len(samples),
    }
    if baseline is not None and baseline["extra_info"]["race"] == info["race"]:
        ratio = statistics.ratio_interval(samples, baseline["stats"]["data"], paired=True)
        row["ratio"], row["ratio_interval"] = ratio.mid, [ratio.low, ratio.high]
        if info.get("energy") and (base := baseline["extra_info"].get("energy")):
            row["energy_ratio"] = info["energy"]["launch_mj"] / base["launch_mj"]
        disturbed = DISTURBED in [*info["flags"], *baseline["extra_info"]["flags"]]
        row["verdict"] = None if baseline is entry else statistics.verdict(ratio, disturbed=disturbed).upper()
        row["unclear"] = "" if baseline is entry else statistics.why_unclear(ratio, disturbed=disturbed)
    return row


def describe_problem(problem: Problem, entries: Sequence[Row], failed: Sequence[Row], baseline: str) -> Row:
    """Return one problem as JSON: its facts, how it was timed, and its :func:`rows`."""
    found = rows(entries, failed, baseline)
    info = entries[0]["extra_info"] if entries else {}
    return {
        "problem": problem.id,
        "op": problem.op,
        **record.describe_problem(problem),
        **{key: info.get(key) for key in ("device", "gpu", "clock", "clock_detail", "cache", "repeated_rounds")},
        "baseline": baseline if any(row["id"] == baseline and row["outcome"] == "measured" for row in found) else None,
        "rows": found,
    }


class Tables:
    """A printer of one table per problem. Facts that several tables share are printed once, above the first table."""

    def __init__(self, *, full: bool = False) -> None:
        """``full``: whether to show the medians' confidence intervals and the host's times too."""
        self._console, self._full = output.console(), full
        self._how = self._ratio = ""
        self._tables = 0
        self._noted = set[str]()
        self._marks: list[list[str]] = []

    def show(self, described: Row) -> None:
        """Print one problem's rows, without columns that are empty."""
        measured = [row for row in described["rows"] if row["outcome"] == "measured"]
        if not measured:
            self._console.print(f"{described['problem']}: nothing was measured", style="bold")
            return
        how = f"{described['device']}, {described['clock']} clock: {described['clock_detail']}"
        if how != self._how:
            output.print_note(self._console, how)
        ratio = f"ratio: time / {described['baseline']}, below 1 is faster" if described["baseline"] else self._ratio
        if ratio != self._ratio:
            output.print_note(self._console, ratio)
        if (how, ratio) != (self._how, self._ratio):
            self._console.print()
        self._how, self._ratio = how, ratio
        self._console.print(described["problem"], style="bold")
        cells = [self._cells(row) for row in measured]
        columns = [name for name in cells[0] if any(cell[name] not in ("", "-") for cell in cells)]
        table = output.make_table(*columns, optional=_SPARE)
        for row, cell in zip(measured, cells, strict=True):
            style = None if notes.marks(row["flags"]) else _STYLES.get(cell["verdict"])
            table.add_row(*(cell[name] for name in columns), style=style)
        output.show(self._console, table)
        if again := described["repeated_rounds"]:
            rounds = "1 disturbed round was" if again == 1 else f"{again} disturbed rounds were"
            self._console.print(f"{rounds} measured again")
        unclear = [row for row in measured if row.get("unclear") and not notes.marks(row["flags"])]  # marks have notes
        for why in dict.fromkeys(row["unclear"] for row in unclear):
            ids = [row["id"] for row in unclear if row["unclear"] == why]
            output.print_note(self._console, f"UNCLEAR, {ids[0] if len(ids) == 1 else f'{len(ids)} rows'}: {why}")
        for line in notes.contract_slowdowns((row["id"], row["form"] or "") for row in measured):
            self._print_note_once(line)
        counted = [Energy(**row["energy"]) for row in measured if row.get("energy")]
        if counted:  # the counter is the same for all tables
            self._print_note_once(notes.energy_resolution(counted), "energy")
        marks = [notes.marks(row["flags"]) for row in measured]
        for line in notes.explain_marks(marks):
            self._print_note_once(line, line[0])
        self._marks += marks
        self._tables += 1
        self._console.print()

    def _print_note_once(self, text: str, subject: str = "") -> None:
        """Print a note, unless a note with the same subject was printed before. The default subject is the text."""
        if (subject or text) not in self._noted:
            output.print_note(self._console, text)
            self._noted.add(subject or text)

    def print_marks_summary(self) -> None:
        """After several tables, explain once more the marks behind ids, with the number of results that have each."""
        for line in notes.explain_marks(self._marks) if self._tables > 1 else ():
            output.print_note(self._console, line)

    def _cells(self, row: Row) -> dict[str, str]:
        full = self._full
        return {
            "implementation": notes.append_marks(row["id"], row["flags"]),
            # The variant that ``auto`` or another chooser ran; "" if the row's own kernel ran.
            "form": row["form"].rpartition("/")[2] if full and row["form"] not in (None, "", row["id"]) else "",
            ">median, µs": output.number(row["median_us"]),
            ">95 %, µs": output.format_interval(*row["interval_us"]).strip() if full else "",
            ">ratio": output.number(row["ratio"]),
            ">95 % interval": output.format_interval(*row["ratio_interval"]).strip() if row["verdict"] else "",
            "verdict": row["verdict"] or "",
            ">GB/s": output.number(row["gb_per_s"]),
            ">of limit": "-" if row["of_limit"] is None else f"{row['of_limit']:.0%}",
            ">energy, mJ": output.number((row.get("energy") or {}).get("launch_mj")),
            ">energy ratio": output.number(row.get("energy_ratio")),
            ">submit, µs": output.number(row["submit_us"]) if full else "",
            ">first call, ms": output.number(row["first_call_ms"]) if full else "",
            "flags": ", ".join(notes.unmarked_flags(row["flags"])),
        }


_SPARE = (
    *("first call, ms", "submit, µs", "95 %, µs", "form", "of limit", "GB/s", "95 % interval"),
    *("flags", "energy ratio", "energy, mJ", "ratio"),
)
"""Columns that a narrow terminal drops, the least needed first."""

_STYLES = {"FASTER": "green", "SLOWER": "red"}


def print_without_result(problems: Sequence[Row]) -> None:
    console = output.console()
    for line in without_result_lines(problems):
        console.print(line)
    for line in describe_refusals(problems):
        output.print_note(console, line)


_NOT_TAKEN = re.compile(r"\S+ can't take this problem: (.*?)(?:; variant='auto' takes every legal input)?", re.DOTALL)
"""A pattern for the message of UnsupportedProblemError. Its group is the reason why a form refuses a problem."""


def describe_refusals(problems: Sequence[Row]) -> list[str]:
    """Return a line per reason why implementations refuse problems. Reasons differing only in numbers share a line."""
    told: dict[str, list[tuple[str, str]]] = {}
    for row in (row for described in problems for row in described["rows"] if row["outcome"] == "refused"):
        if found := _NOT_TAKEN.fullmatch(row["reason"]):
            told.setdefault(re.sub(r"\d+", "N", found[1]), []).append((row["id"], found[1]))
    lines = []
    for rows in told.values():
        ids, reasons = sorted({id for id, _ in rows}), [reason for _, reason in rows]
        times = "" if len(rows) == len(ids) else f", {len(rows)} times"
        one = "for one, " if len(set(reasons)) > 1 else ""
        lines.append(f"not taken by {', '.join(ids)}{times}: {one}{output.shorten_reason(reasons[0])}")
    return lines


def without_result_lines(problems: Sequence[Row]) -> list[str]:
    """Return lines on timed rows that break the contract, on wrong or failed rows without a time, and on refusals."""
    breaking, wrong, refusals = dict[str, str](), list[str](), dict[str, list[str]]()
    for described in problems:
        for row in described["rows"]:
            if row.get("breaks"):
                breaking.setdefault(row["id"], f"on {described['problem']}: {output.shorten_reason(row['breaks'])}")
            if row["outcome"] in ("wrong", "failed"):
                why = output.shorten_reason(row["reason"])
                wrong.append(f"{row['outcome'].upper()} {row['id']} on {described['problem']}: {why}")
            elif row["outcome"] == "refused" and not _NOT_TAKEN.fullmatch(row["reason"]):
                refusals.setdefault(row["reason"], []).append(row["id"])
    lines = [f"BREAKS THE CONTRACT, timed on request: {id} {why}" for id, why in breaking.items()] + wrong
    lacking = {reason: ids[0].partition("/")[0] for reason, ids in refusals.items()}
    lacking = {why: name for why, name in lacking.items() if why.startswith(f"backend {name!r} can't run here")}
    if len(lacking) > 3:
        names = sorted(set(lacking.values()))
        lines.append(f"{len(names)} backends can't run here: {', '.join(names)}; kernelzoo doctor says what they need")
        refusals = {reason: ids for reason, ids in refusals.items() if reason not in lacking}
    for reason, ids in refusals.items():
        distinct = sorted(set(ids))
        times = "" if len(ids) == len(distinct) else f", {len(ids)} times"
        lines.append(f"refused by {output.ids_or_count(distinct)}{times}: {output.shorten_reason(reason)}")
    return lines
