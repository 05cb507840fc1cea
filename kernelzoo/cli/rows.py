"""What was measured on one problem, as rows: for a table, and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelzoo.cli import output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from kernelzoo.measure import Problem

Row = dict[str, Any]


def rows(entries: Sequence[Row], failed: Sequence[Row], baseline: str) -> list[Row]:
    """The rows of one problem, fastest first, then what has no result.

    entries, failed: as :meth:`kernelzoo.measure.guard.Guard.race` gives them. Ratios are of times to the id
    ``baseline``'s, where the same race measured it; below 1 is faster.
    """
    by_id = {entry["extra_info"]["id"]: entry for entry in entries}
    measured = [_measured(entry, by_id.get(baseline)) for entry in entries]
    measured.sort(key=lambda row: float(row["median_us"]))
    return measured + [{"id": f["id"], "outcome": f["outcome"], "reason": f["reason"]} for f in failed]


def _measured(entry: Row, baseline: Row | None) -> Row:
    from kernelzoo.measure import statistics

    info, samples = entry["extra_info"], entry["stats"]["data"]
    median = statistics.median_interval(samples)
    row = {
        "id": info["id"],
        "form": info.get("form"),
        "outcome": "measured",
        "median_us": median.mid * 1e6,
        "interval_us": [median.low * 1e6, median.high * 1e6],
        "gb_per_s": info["gb_per_s"],
        "of_limit": info["of_limit"],
        "ratio": None,
        "ratio_interval": None,
        "verdict": None,
        "submit_us": info["submit_us"],
        "first_call_ms": info["first_call_ms"],
        "cupti_us": info["cupti_us"],
        "flags": info["flags"],
        "breaks": info.get("breaks"),
        "samples": len(samples),
    }
    if baseline is not None and baseline["extra_info"]["race"] == info["race"]:
        ratio = statistics.ratio_interval(samples, baseline["stats"]["data"], paired=True)
        row["ratio"], row["ratio_interval"] = ratio.mid, [ratio.low, ratio.high]
        row["verdict"] = None if baseline is entry else statistics.verdict(ratio).upper()
    return row


def described(problem: Problem, entries: Sequence[Row], found: Sequence[Row], baseline: str) -> Row:
    """One problem for machines: what it is, how it was timed, and its rows."""
    info = entries[0]["extra_info"] if entries else {}
    return {
        "problem": problem.id,
        "op": problem.op,
        "shape": list(problem.shape),
        "dtype": problem.dtype,
        "dim": problem.dim,
        **{key: info.get(key) for key in ("device", "clock", "clock_detail", "cache", "repeated_rounds")},
        "baseline": baseline if any(row["id"] == baseline and row["outcome"] == "measured" for row in found) else None,
        "rows": list(found),
    }


class Tables:
    """Prints the problems of one run, each as a table; how they were timed is said when it changes."""

    def __init__(self, console: Console, *, full: bool = False) -> None:
        """Full: intervals of the medians, and the host's times too."""
        self._console, self._full = console, full
        self._how = ""

    def show(self, described: Row) -> None:
        """Print one problem's rows; columns that are empty throughout are left out."""
        cells = [self._cells(row, described["baseline"]) for row in described["rows"] if row["outcome"] == "measured"]
        if not cells:
            self._console.print(f"{described['problem']}: nothing measured", style="bold")
            return
        how = f"{described['device']}, {described['clock']} clock: {described['clock_detail']}"
        if how != self._how:
            self._console.print(how, "", sep="\n")
            self._how = how
        self._console.print(described["problem"], style="bold")
        columns = [name for name in cells[0] if any(cell[name] not in ("", "-") for cell in cells)]
        table = _table(columns, cells)
        if self._console.measure(table).maximum > self._console.width and _FORM in columns:
            columns.remove(_FORM)
            table = _table(columns, cells)
        output.show(self._console, table)
        if again := described["repeated_rounds"]:
            self._console.print(f"{again} rounds were disturbed and measured again")
        self._console.print()

    def _cells(self, row: Row, baseline: str) -> dict[str, str]:
        full = self._full
        return {
            "implementation": row["id"],
            _FORM: _form(row) if full else "",
            ">median, µs": output.number(row["median_us"]) + (output.interval(*row["interval_us"]) if full else ""),
            ">GB/s": output.number(row["gb_per_s"]),
            ">of limit": output.percent(row["of_limit"]),
            f">time / {baseline}": "-" if row["ratio"] is None else output.number(row["ratio"]) + _brackets(row),
            "verdict": row["verdict"] or "",
            ">submit, µs (host's clock)": output.number(row["submit_us"]) if full else "",
            ">first call, ms (host's clock)": output.number(row["first_call_ms"]) if full else "",
            "flags": ", ".join(row["flags"]),
        }


_FORM = "form"
_STYLES = {"FASTER": "green", "SLOWER": "red"}


def _table(columns: Sequence[str], cells: Sequence[dict[str, str]]) -> Table:
    table = output.table(*columns)
    for cell in cells:
        table.add_row(*(cell[name] for name in columns), style=_STYLES.get(cell["verdict"]))
    return table


def _form(row: Row) -> str:
    """Which form ran, where it is not the implementation itself."""
    form: str = row["form"] or row["id"]
    return "" if form == row["id"] else form.rpartition("/")[2]


def _brackets(row: Row) -> str:
    return "" if row["verdict"] is None else output.interval(*row["ratio_interval"])


def without_result(problems: Sequence[Row]) -> list[str]:
    """What has no result, in words: each wrong or failed row, then the refusals, those of one reason together. Before
    them, what was timed by leave, each implementation once."""
    lines, refusals = list[str](), dict[str, list[str]]()
    breaking: dict[str, str] = {}
    for described in problems:
        for row in described["rows"]:
            if row.get("breaks"):
                breaking.setdefault(row["id"], f"on {described['problem']}: {output.brief(row['breaks'])}")
    lines += [f"BREAKS THE CONTRACT, timed by leave: {id} {why}" for id, why in breaking.items()]
    for described in problems:
        for row in described["rows"]:
            if row["outcome"] in ("wrong", "failed"):
                why = output.brief(row["reason"])
                lines.append(f"{row['outcome'].upper()} {row['id']} on {described['problem']}: {why}")
            elif row["outcome"] == "refused":
                refusals.setdefault(row["reason"], []).append(row["id"])
    for reason, ids in refusals.items():
        distinct = sorted(set(ids))
        times = "" if len(ids) == len(distinct) else f", {len(ids)} times"
        lines.append(f"refused by {output.some(distinct)}{times}: {output.brief(reason)}")
    return lines
