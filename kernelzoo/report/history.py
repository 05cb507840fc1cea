"""Speed changes over the results of many commits.

Each row is compared with the last run at which its time had changed. So small steps are found once they add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelzoo.measure.statistics import Verdict, verdict
from kernelzoo.report.compare import Comparison, by_current_id, compare, one_card
from kernelzoo.report.reading import load
from kernelzoo.report.results import Group, Problem, ResultsError, Row, Run

Key = tuple[str, Problem]


@dataclass(frozen=True)
class Step:
    """The run at which an implementation's time on a problem changed, and the run of its previous change."""

    comparison: Comparison
    """The run of this change over that of the previous change."""
    verdict: Verdict
    of_baseline: float | None
    """The baseline's time ratio between the same two runs, which shows changes of the machine or torch."""
    last: bool
    """Whether no later run measured the row."""

    @property
    def relative(self) -> float | None:
        """Now over before, relative to the baseline's change."""
        return None if self.of_baseline is None else self.comparison.ratio / self.of_baseline


@dataclass(frozen=True)
class Point:
    """One run: what it measured again, and what had changed."""

    run: Run
    label: str
    """The device, clock and state of the cache."""
    results: int
    again: int
    """Results that an earlier run has too."""
    untold: int
    """How many of these can't be compared: no samples, disturbed, or of another card."""
    steps: tuple[Step, ...]

    def count(self, kind: Verdict) -> int:
        return sum(step.verdict is kind for step in self.steps)


def history(paths: Sequence[Path], by: float, op: Sequence[str] = ()) -> list[Point]:
    """The runs, by device and then by date.

    A change is one whose whole interval lies beyond ``by``, such as 0.05. ``op``: these operations only. Raises
    ResultsError for a file that can't be read, and if no two runs measured the same.
    """
    if len(paths) < 2:
        raise ResultsError("a history needs the results files of at least two runs")
    by_place: dict[tuple[str, str, str], list[Group]] = {}
    for path in paths:
        for group in load([path]).groups:
            by_place.setdefault((group.device, group.clock, group.cache), []).append(group)
    points = [point for groups in by_place.values() for point in _points(groups, by, op)]
    if not any(point.again for point in points):
        raise ResultsError("no two of these runs measured the same on one device and clock, so there is no history")
    return points


def _points(groups: Sequence[Group], by: float, ops: Sequence[str]) -> list[Point]:
    """The runs of one device, clock and state of the cache."""
    ordered = sorted(groups, key=lambda group: group.rows[0].run.date)  # stable: the given order for equal dates
    runs = [[row for row in group.rows if not ops or row.op in ops] for group in ordered]
    measured: list[dict[Key, Row]] = [by_current_id(rows) for rows in runs]
    newest = {key: place for place, rows in enumerate(measured) for key in rows}
    since: dict[Key, tuple[int, Row]] = {}
    points = []
    for place, rows in enumerate(measured):
        steps, again, untold = list[Step](), 0, 0
        for key, row in rows.items():
            if key not in since:
                since[key] = place, row
                continue
            again += 1
            start, old = since[key]
            if not one_card(row, old):
                untold += 1
                continue
            found = compare(row, old)
            if found.interval is None or found.disturbed:
                untold += 1
                continue
            told = verdict(found.interval, margin=by)
            if told in (Verdict.FASTER, Verdict.SLOWER):
                base = f"{ordered[0].baseline.replace('/', f'/{row.op}/')}", row.problem
                both = rows.get(base), measured[start].get(base)
                ratio = compare(both[0], both[1]).ratio if both[0] and both[1] else None
                steps.append(Step(found, told, ratio, newest[key] == place))
                since[key] = place, row
        if rows:
            run = next(iter(rows.values())).run
            points.append(Point(run, ordered[place].label, len(rows), again, untold, tuple(steps)))
    return points
