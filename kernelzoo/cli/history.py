"""``kernelzoo history``: speed changes over the results of many commits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelzoo.cli import against, options, output
from kernelzoo.report.results import BASELINE

if TYPE_CHECKING:
    from kernelzoo.report.history import RunChanges, SpeedChange

Files = Annotated[list[Path], typer.Argument(metavar="RESULTS.json", help="Files that kernelzoo bench -o wrote.")]
By = Annotated[str, options.option("--by", "SHARE", "The least change that counts.")]

MOST = 40
"""The most changes to print, the worst slowdowns first. The JSON has all."""


def history(files: Files, *, op: options.Ops, by: By = "5%", json: options.Json = False) -> int:
    """Show speed changes over results files of several commits, and in which commit each occurred.

    Files are ordered by the date of their run. A row has changed if the whole 95 % interval of its ratio lies beyond
    --by. Each row is compared with the run of its previous change, so a slow drift is found too. Nothing is measured.

    Exit status: 0; 1 if a row is slower in the last run that measured it; 2 for bad usage, or if no two files measured
    the same row.
    """
    from kernelzoo.measure.statistics import Verdict
    from kernelzoo.report import history as found

    points = found.history(files, against.parse_percent_or_fraction(by), options.split_words(op))
    slower = [step for point in points for step in point.steps if step.last and step.verdict is Verdict.SLOWER]
    if json:
        output.print_json({"runs": [_run_to_json(point) for point in points], "slower": len(slower)})
    else:
        _print(points)
    return 1 if slower else 0


def _run_to_json(changes: RunChanges) -> dict[str, Any]:
    run = {"file": changes.run.file, "date": changes.run.date, "commit": changes.run.commit, "device": changes.label}
    counts = {"results": changes.results, "measured_again": changes.again, "not_comparable": changes.not_comparable}
    return {**run, **counts, "changes": [_speed_change_to_json(step) for step in changes.steps]}


def _speed_change_to_json(change: SpeedChange) -> dict[str, Any]:
    told, base = change.comparison, change.comparison.base
    interval = told.interval
    return {
        "id": told.row.id,
        "problem": told.row.problem.title,
        "since_commit": base.run.commit,
        "since_file": base.run.file,
        "before_us": base.microseconds,
        "now_us": told.row.microseconds,
        "ratio": told.ratio,
        "interval": [interval.low, interval.high] if interval else None,
        "verdict": change.verdict.name,
        "baseline_ratio": change.of_baseline,
        "last": change.last,
    }


def _print(points: Sequence[RunChanges]) -> None:
    from kernelzoo.measure.statistics import Verdict

    console = output.console()
    for label in dict.fromkeys(point.label for point in points):
        of = [point for point in points if point.label == label]
        console.print(label, style="bold")
        runs = output.make_table("run", "commit", ">results", ">again", ">slower", ">faster", "file", optional=["file"])
        for point in of:
            commit = point.run.commit.replace(" with uncommitted changes", "+") or "-"
            counts = (point.results, point.again, point.count(Verdict.SLOWER), point.count(Verdict.FASTER))
            runs.add_row(point.run.date[:16].replace("T", " ") or "-", commit, *map(str, counts), point.run.file)
        output.show(console, runs)
        steps = [step for point in of for step in point.steps]  # slowdowns first, the largest of each before others
        steps.sort(key=lambda step: (step.comparison.ratio < 1, -abs(math.log(step.comparison.ratio))))
        if not steps:
            console.print("nothing changed by more than --by")
            continue
        changes = output.make_table(
            *("implementation", "problem", "commit", ">before, µs", ">now, µs", ">now / before", "95 % interval"),
            *("verdict", f">less {BASELINE}"),
            optional=["95 % interval", "before, µs", "now, µs", "verdict"],
        )
        for step in steps[:MOST]:
            told = step.comparison
            interval = output.format_interval(told.interval.low, told.interval.high).strip() if told.interval else ""
            changes.add_row(
                " ".join([told.row.id, *told.warning_marks]),
                told.row.problem.title,
                told.row.run.commit.split()[0] if told.row.run.commit else "-",
                *map(output.number, (told.base.microseconds, told.row.microseconds, told.ratio)),
                interval,
                step.verdict.name,
                output.number(step.relative_to_baseline),
                style="red" if step.last and step.verdict is Verdict.SLOWER else None,
            )
        console.print()
        output.show(console, changes)
        if len(steps) > MOST:
            console.print(f"and {len(steps) - MOST} more; --json has all")
