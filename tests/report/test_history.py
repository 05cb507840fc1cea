"""What changed over many runs: where, by how much, and what is no change."""

from pathlib import Path

import pytest

from kernelzoo.measure.statistics import Verdict
from kernelzoo.report.history import history
from kernelzoo.report.results import ResultsError

FAST, EAGER = "triton/softmax/auto", "torch/softmax/eager"
BY = 0.05


@pytest.fixture
def runs(entry, write):
    """Files of runs a day apart: of each the time of ``FAST``, or a mapping of times by id."""

    def make(*times, **told) -> list[Path]:
        paths = []
        for day, time in enumerate(times, start=1):
            by_id = time if isinstance(time, dict) else {EAGER: 10.0, FAST: time}
            rows = [entry(id, us=us, data=[us + i / 1e4 for i in range(9)], **told) for id, us in by_id.items()]
            paths.append(write(rows, f"{day}.json", f"2026-01-{day:02}T00:00:00"))
        return paths

    return make


def steps(paths: list[Path], **options) -> list[tuple[str, Verdict, float]]:
    return [
        (step.comparison.row.run.file, step.verdict, round(step.comparison.ratio, 2))
        for point in history(paths, BY, **options)
        for step in point.steps
    ]


def test_a_change_is_found_once_at_its_run_whatever_the_order_of_the_files(runs) -> None:
    paths = runs(5.0, 5.1, 6.0, 6.0, 4.0)
    found = [("3.json", Verdict.SLOWER, 1.2), ("5.json", Verdict.FASTER, 0.67)]
    assert steps(paths) == steps(paths[::-1]) == found


def test_a_drift_of_small_steps_is_found(runs) -> None:
    assert steps(runs(5.0, 5.1, 5.2, 5.3, 5.4)) == [("4.json", Verdict.SLOWER, 1.06)]


def test_what_the_baseline_did_too_is_told(runs) -> None:
    """The baseline's own time between the same two runs: here the machine became slower."""
    (one,) = (
        step
        for point in history(runs({EAGER: 10.0, FAST: 5.0}, {EAGER: 10.0, FAST: 5.1}, {EAGER: 12.0, FAST: 6.0}), BY)
        for step in point.steps
        if step.comparison.row.id == FAST
    )
    assert [round(x, 2) for x in (one.comparison.ratio, one.of_baseline, one.relative_to_baseline)] == [1.2, 1.2, 1.0]


def test_the_last_run_of_a_row_is_known(runs) -> None:
    points = history(runs(5.0, 6.0, {EAGER: 10.0}), BY)
    assert [step.last for point in points for step in point.steps] == [True]
    assert [step.last for point in history(runs(5.0, 6.0, 7.0), BY) for step in point.steps] == [False, True]


def test_the_disturbed_and_those_without_samples_tell_nothing(entry, write, runs) -> None:
    assert steps(runs(5.0, 9.0, flags=["disturbed"])) == []
    paths = [write([entry(us=us)], f"{us}.json", f"2026-01-0{us:.0f}") for us in (2.0, 8.0)]
    assert [(point.again, point.not_comparable) for point in history(paths, BY)] == [(0, 0), (1, 1)]


def test_devices_are_apart_and_operations_are_chosen(entry, write) -> None:
    rows = [entry(us=us, data=[us] * 9, device=device) for us, device in ((5.0, "A"), (9.0, "B"))]
    with pytest.raises(ResultsError, match="no two of these runs measured the same"):
        history([write([row], f"{i}.json") for i, row in enumerate(rows)], BY)
    both = [
        write(
            [entry(id, us=us, data=[us] * 9) for id in (EAGER, "torch/min/eager")], f"{us}.json", f"2026-01-0{us:.0f}"
        )
        for us in (2.0, 4.0)
    ]
    assert len(steps(both)) == 2 and len(steps(both, op=("min",))) == 1
