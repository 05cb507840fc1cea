"""Speed changes over the results of many commits.

Each row is compared with the same row in the run where it last changed. So small changes are found once they add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelzoo.measure.statistics import Verdict, verdict
from kernelzoo.report.compare import Comparison, compare, index_by_replacement_id, same_card
from kernelzoo.report.reading import load
from kernelzoo.report.results import ComparableRows, Problem, ResultsError, Row, Run

Key = tuple[str, Problem]


@dataclass(frozen=True)
class SpeedChange:
    """A change of an implementation's time on a problem, since the run in which that time last changed."""

    comparison: Comparison
    """The row of this run, compared with the row of the previous change's run."""
    verdict: Verdict
    of_baseline: float | None
    """The baseline's time ratio between the same two runs. It shows changes of the machine or torch."""
    last: bool
    """Whether no later run measured the row."""

    @property
    def relative_to_baseline(self) -> float | None:
        """The time ratio divided by the baseline's time ratio."""
        return None if self.of_baseline is None else self.comparison.ratio / self.of_baseline


@dataclass(frozen=True)
class RunChanges:
    """One run: the number of results, and the speed changes since earlier runs."""

    run: Run
    label: str
    """The device, clock and state of the cache."""
    results: int
    again: int
    """How many of the results an earlier run has too."""
    not_comparable: int
    """How many of ``again`` can't be compared: too few samples, disturbed, or of another card."""
    steps: tuple[SpeedChange, ...]

    def count(self, kind: Verdict) -> int:
        return sum(step.verdict is kind for step in self.steps)


def history(paths: Sequence[Path], least_change: float, op: Sequence[str] = ()) -> list[RunChanges]:
    """Return the runs of each device, clock and cache, by date.

    A row has changed if its ratio's whole interval differs from 1 by more than ``least_change``. ``op``: the operations
    to include; by default all. Raises ResultsError if a file can't be read, or if no two runs have the same row.
    """
    if len(paths) < 2:
        raise ResultsError("a history needs the results files of at least two runs")
    by_place: dict[tuple[str, str, str], list[ComparableRows]] = {}
    for path in paths:
        for group in load([path]).groups:
            by_place.setdefault((group.device, group.clock, group.cache), []).append(group)
    points = [point for groups in by_place.values() for point in _compare_runs(groups, least_change, op)]
    if not any(point.again for point in points):
        raise ResultsError("no two of these runs measured the same on one device and clock, so there is no history")
    return points


def _compare_runs(groups: Sequence[ComparableRows], least_change: float, ops: Sequence[str]) -> list[RunChanges]:
    """Return the runs of one device, clock and state of the cache."""
    ordered = sorted(groups, key=lambda group: group.rows[0].run.date)  # stable: the given order for equal dates
    runs = [[row for row in group.rows if not ops or row.op in ops] for group in ordered]
    measured: list[dict[Key, Row]] = [index_by_replacement_id(rows) for rows in runs]
    newest = {key: place for place, rows in enumerate(measured) for key in rows}
    since: dict[Key, tuple[int, Row]] = {}
    points = []
    for place, rows in enumerate(measured):
        steps, again, not_comparable = list[SpeedChange](), 0, 0
        for key, row in rows.items():
            if key not in since:
                since[key] = place, row
                continue
            again += 1
            start, old = since[key]
            if not same_card(row, old):
                not_comparable += 1
                continue
            found = compare(row, old)
            if found.interval is None or found.is_disturbed:
                not_comparable += 1
                continue
            told = verdict(found.interval, margin=least_change)
            if told in (Verdict.FASTER, Verdict.SLOWER):
                base = f"{ordered[0].baseline.replace('/', f'/{row.op}/')}", row.problem
                both = rows.get(base), measured[start].get(base)
                ratio = compare(both[0], both[1]).ratio if both[0] and both[1] else None
                steps.append(SpeedChange(found, told, ratio, newest[key] == place))
                since[key] = place, row
        if rows:
            run = next(iter(rows.values())).run
            points.append(RunChanges(run, ordered[place].label, len(rows), again, not_comparable, tuple(steps)))
    return points
