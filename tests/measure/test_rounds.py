"""How many rounds a race has: those asked for, and more while a verdict is open. The clock tells made-up times."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import measure
from kernelzoo.measure.judge.doubts import Doubts

RACE: Any = sys.modules[measure.race.__module__]
PROBLEM = measure.Problem("min", (16, 33), "float32")


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
        monkeypatch.setattr(RACE._Race, "timed_turn", turn)
        monkeypatch.setattr(RACE._Race, "sample", turn)
        monkeypatch.setattr(Doubts, "false_time", lambda doubts, entrant, median: "")
        if not options.pop("watched", False):
            monkeypatch.setattr(module, "watch", lambda device, processes=(): None)
        both = [kernelzoo.implementation(f"torch/min/{variant}") for variant in ("eager", "auto")]
        found = measure.race(PROBLEM, both, torch.device("cpu"), rounds=asked, cache="hot", **options)
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
    class Restless:
        read = object

        def disturbed(self, before: object, after: object) -> str:
            return "the clock fell"

    monkeypatch.setattr(RACE, "watch", lambda device, processes=(): Restless())
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
    failed, timed = measure.race(PROBLEM, both, torch.device("cpu"), rounds=5, cache="hot").values()
    assert (failed.samples, failed.failed) == ([], "raised OSError: a process ended while it was looked at")
    assert (len(timed.samples), timed.failed) == (5, "")
