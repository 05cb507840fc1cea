"""Rounds and disturbances of a race, by a clock that tells made-up times and a watch that says what it is told."""

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from math import inf
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import measure
from kernelzoo.cli import verdicts
from kernelzoo.measure.judge.doubts import TimeChecks
from kernelzoo.measure.measurement import BUSY

RACE: Any = sys.modules[measure.race.__module__]
PROBLEM = measure.Problem("min", (16, 33), "float32")
CPU = torch.device("cpu")


class Watch:
    """A device that is disturbed so many times, and on which others may work."""

    def __init__(self, times: float, why: str = "the clock fell", others: str = "") -> None:
        self.left, self.why, self.beside = times, why, others

    def read(self) -> object:
        return object()

    def disturbed(self, before: object, after: object) -> str:
        self.left -= 1
        return self.why if self.left >= 0 else ""

    def describe_other_processes(self, ours: set[int]) -> str:
        assert os.getpid() in ours
        return self.beside


def steady(i: int) -> float:
    return 1e-6


def slower(i: int) -> float:
    return 1.5e-6


def restless(i: int) -> float:
    return 1e-6 * (1.1 if i % 2 else 0.9)


def settling(i: int) -> float:
    """Noise that the median of 30 rounds tells from a difference, and that of 15 doesn't."""
    return 1e-6 * (1.04 if i % 3 == 0 and i < 20 else 1.001 if i % 2 else 0.999)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[int, int]]]:
    """The samples and the rounds asked for of a race of two, whose times in round i are functions of i."""

    def race(*times: Callable[[int], float], asked: int = 15, **options: bool) -> tuple[int, int]:
        made = {}

        def turn(race: object, entrant: measure.Entrant, special: object = None) -> float:
            if entrant.id not in made:
                made[entrant.id] = times[len(made)], count()
            of, turns = made[entrant.id]
            return of(next(turns))

        module = RACE
        monkeypatch.setattr(RACE._Race, "time_turn", turn)
        monkeypatch.setattr(RACE._Race, "sample", turn)
        monkeypatch.setattr(TimeChecks, "find_false_time", lambda doubts, entrant, median: "")
        if not options.pop("watched", False):
            monkeypatch.setattr(module, "watch", lambda device, processes=(): None)
        both = [kernelzoo.implementation(f"torch/min/{variant}") for variant in ("eager", "auto")]
        found = measure.race(PROBLEM, both, CPU, rounds=asked, cache="hot", **options)
        first, second = found.values()
        assert len(first.samples) == len(second.samples), found
        return len(first.samples), first.rounds

    return race


@pytest.mark.parametrize(
    ("other", "asked", "taken"),
    [(steady, 15, 15), (slower, 15, 15), (restless, 15, 60), (restless, 8, 32), (restless, 5, 5), (settling, 15, 30)],
)
def test_rounds_are_added_until_the_verdict_is_clear_or_four_times_as_many(
    rounds: Callable[..., tuple[int, int]], other: Callable[[int], float], asked: int, taken: int
) -> None:
    assert rounds(steady, other, asked=asked, until_clear=True) == (taken, asked)
    assert rounds(steady, other, asked=asked) == (asked, asked)


def test_none_are_added_where_the_device_stayed_disturbed(
    rounds: Callable[..., tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RACE, "watch", lambda device, processes=(): Watch(inf))
    assert rounds(steady, restless, until_clear=True, watched=True) == (15, 15)


def test_who_fails_right_after_a_turn_is_out_of_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, true = count(), RACE._Race.sample

    def sample(race: object, entrant: measure.Entrant) -> float:
        if entrant.id == "torch/min/eager" and next(turns) == 3:  # the warm-up, and two rounds
            raise OSError("a process ended while it was looked at")
        seconds: float = true(race, entrant)
        return seconds

    monkeypatch.setattr(RACE._Race, "sample", sample)
    both = [kernelzoo.implementation(f"torch/min/{variant}") for variant in ("eager", "auto")]
    failed, timed = measure.race(PROBLEM, both, CPU, rounds=5, cache="hot").values()
    assert (failed.samples, failed.failed) == ([], "raised OSError: a process ended while it was looked at")
    assert (len(timed.samples), timed.failed) == (5, "")


@pytest.mark.parametrize(("disturbed", "repeated"), [(0, 0), (2, 2), (5, 4), (99, 4)])
def test_disturbed_rounds_are_measured_again(disturbed: int, repeated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to as many as were asked for; a device that never rests gives its samples all the same, and the count."""
    monkeypatch.setattr(RACE, "watch", lambda device, processes=(): Watch(disturbed))
    eager = kernelzoo.implementation("torch/min/eager")
    (result,) = measure.race(PROBLEM, [eager], CPU, rounds=4, cache="hot").values()
    assert (len(result.samples), result.repeated_rounds) == (4, repeated)
    assert result.flags == (("disturbed",) if disturbed > 4 else ())


@pytest.mark.parametrize(("disturbed", "others"), [("threads waited", ""), ("", "2 other processes"), ("", "")])
def test_a_time_that_the_judges_clock_contradicts(disturbed: str, others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is false on a quiet machine; on a busy one there is none, and no blame."""
    busy = disturbed or others
    monkeypatch.setattr(RACE, "watch", lambda *given: Watch(inf, disturbed, others))
    monkeypatch.setattr(TimeChecks, "find_false_time", lambda *given: "it took longer")
    (result,) = measure.race(PROBLEM, [kernelzoo.implementation("torch/min/eager")], CPU, rounds=1).values()
    assert not result.samples
    if busy:
        assert (result.wrong, result.refused) == ("", f"it took longer; but {busy}, so measure again")
        assert result.details == {"kind": BUSY}
    else:
        assert result.wrong.endswith("it took longer") and result.refused == ""


def test_times_are_tested_on_ordinary_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's softmax of one long bfloat16 row took 1.4 times as long on special values: no false time."""
    specials, tested, true = list[object](), list[object](), RACE._Race.time_turn

    def time_turn(race: Any, entrant: measure.Entrant, special: Any = None) -> float:
        specials.append(special)
        return float(true(race, entrant, special))

    def find_false_time(*given: object) -> str:
        tested.append(specials[-1])
        return ""

    monkeypatch.setattr(RACE._Race, "time_turn", time_turn)
    monkeypatch.setattr(TimeChecks, "find_false_time", find_false_time)
    measure.race(PROBLEM, [kernelzoo.implementation("torch/min/eager")], CPU, rounds=1)
    assert tested == [None] and any(special is not None for special in specials)


def test_a_right_kernel_without_a_time_is_right() -> None:
    made: Any = verdicts.Judgment("a.json", None, None)  # type: ignore[arg-type]
    made.add(PROBLEM, {"outcome": "refused", "kind": BUSY, "reason": "measure again"}, None, None)
    assert (made.right, made.times, made.refusals) == ([PROBLEM], [], [])
