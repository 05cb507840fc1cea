"""Tuning, on a backend whose cost is a formula: what is better is found, and noise, crashes and slow problems are not.

The times here are made up, and stand for nothing but themselves.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from kernelzoo.measure.problems import Problem
from kernelzoo.measure.tuning import CONFIDENCE, SLOWEST, Tuner, TuningError, TuningOutcome, Values
from kernelzoo.tables import Knob

KNOBS = (
    Knob("tile", 4, (2, 4, 8, 16), "rows", "of a tile"),
    Knob("fill", 50, (25, 50, 100), "%", "of the SMs"),
    Knob("idle", 1, (1, 2), "-", "which changes no plan"),
)
SHIPPED = {knob.name: knob.shipped for knob in KNOBS}
POOL = [Problem("softmax", (rows, 64), dtype) for rows in range(1, 41) for dtype in ("float32", "bfloat16")]

Cost = Callable[[Problem, Mapping[str, int]], float]


class Fake:
    """A device whose launches take what ``cost`` says, with noise; ``tile`` matters to all, ``fill`` to many rows."""

    def __init__(self, cost: Cost, noise: float = 0.005, seed: int = 0) -> None:
        self.cost, self.noise, self.random = cost, noise, random.Random(seed)
        self.now, self.raced = 0.0, list[tuple[str, Problem, dict[str, Values]]]()
        self.broken: dict[str, str] = {}

    def plans(self, id: str, problems: Sequence[Problem], values: Sequence[Values]) -> list[list[str]]:
        def plan(problem: Problem, table: Mapping[str, int]) -> str:
            fill = table["fill"] if problem.shape[0] > 20 else 0
            return f"{table['tile']} {fill}"

        return [[plan(problem, SHIPPED | table) for table in values] for problem in problems]

    def race(
        self, id: str, problem: Problem, values: Mapping[str, Values], rounds: int
    ) -> tuple[dict[str, list[float]], dict[str, str]]:
        self.now += 1
        self.raced.append((id, problem, dict(values)))
        samples, failed = dict[str, list[float]](), dict[str, str]()
        drift = [self.random.lognormvariate(0, 0.2) for _ in range(rounds)]  # what slows a whole round
        for label, table in values.items():
            broken = [why for setting, why in self.broken.items() if setting in str(SHIPPED | table)]
            if broken:
                failed[label] = broken[0]
                continue
            time = self.cost(problem, SHIPPED | table)
            samples[label] = [time * slow * self.random.lognormvariate(0, self.noise) for slow in drift]
        return samples, failed

    def clock(self) -> float:
        return self.now


def tuner(bench: Fake, time_limit: float = math.inf, variants: Sequence[str] = ("auto",)) -> Tuner:
    ids = [f"toy/softmax/{variant}" for variant in variants]
    return Tuner(KNOBS, ids, POOL, bench.plans, bench.race, time_limit=time_limit, clock=bench.clock)


def tune(bench: Fake, time_limit: float = math.inf) -> TuningOutcome:
    return tuner(bench, time_limit).run()


def flat(problem: Problem, table: Mapping[str, int]) -> float:
    return 1e-5 * problem.shape[0]


def best_at_8(problem: Problem, table: Mapping[str, int]) -> float:
    return flat(problem, table) * {2: 1.2, 4: 1.0, 8: 0.9, 16: 0.95}[table["tile"]]


def test_the_best_values_are_found_and_verified() -> None:
    def cost(problem: Problem, table: Mapping[str, int]) -> float:
        return best_at_8(problem, table) * (1.0 if problem.shape[0] <= 20 else 1 + table["fill"] / 1000)

    bench = Fake(cost)
    outcome = tune(bench)
    assert outcome.values == {"tile": 8, "fill": 25}
    assert outcome.unmeasured == {"idle": "it changes no plan of the problems here"}
    assert not outcome.findings
    (verified,) = outcome.verified
    assert verified.held_out and verified.verdict == "faster"
    assert verified.ratio is not None and verified.ratio.low < 0.9 * math.sqrt(1.025 / 1.05) * 1.02 < 1
    taken = {(trial.knob, trial.value) for trial in outcome.trials if trial.taken}
    assert taken == {("tile", 8), ("fill", 25)}


def test_it_is_verified_on_other_shapes_than_it_was_tuned_on() -> None:
    bench = Fake(best_at_8)
    tune(bench)
    tuned = {problem.shape for _, problem, values in bench.raced if "shipped" not in values}
    verified = {problem.shape for _, problem, values in bench.raced if "shipped" in values}
    assert tuned and verified and not tuned & verified
    assert {problem.dtype for _, problem, values in bench.raced if "shipped" not in values} == {"float32", "bfloat16"}


@pytest.mark.parametrize("noise", [0.002, 0.05, 0.3])
def test_noise_alone_changes_nothing(noise: float) -> None:
    outcomes = [tune(Fake(flat, noise, seed)) for seed in range(40)]
    assert not any(outcome.values for outcome in outcomes)
    # Of the single steps hardly one looks faster either: the confidence holds for all of them together.
    stepped = sum(any(trial.verdict == "faster" for trial in outcome.trials) for outcome in outcomes)
    assert stepped <= 6, f"{stepped} of 40 tables had a faster step by chance; {1 - CONFIDENCE:.0%} may"


def test_the_check_above_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = 0
    for seed in range(40):
        bench = Fake(flat, 0.3, seed)
        tuned = tuner(bench)
        tuned.confidence = 0.5
        stepped += any(trial.verdict == "faster" for trial in tuned.run().trials)
    assert stepped > 6


def test_a_step_is_refused_if_one_problem_pays_for_it() -> None:
    def cost(problem: Problem, table: Mapping[str, int]) -> float:
        slow = table["tile"] == 8 and problem.shape[0] > 30
        return flat(problem, table) * (1 + 2 * SLOWEST if slow else best_at_8(problem, table) / flat(problem, table))

    outcome = tune(Fake(cost))
    assert outcome.values == {"tile": 16}
    (refused,) = [trial for trial in outcome.trials if trial.value == 8 and trial.against == 4]
    assert refused.verdict == "faster" and "slower" in refused.reason and not refused.taken


def test_what_only_the_held_out_shapes_tell_is_left_out() -> None:
    tuned_on = {p.shape for p in tuner(Fake(flat)).pool}

    def cost(problem: Problem, table: Mapping[str, int]) -> float:
        fill = 0.9 if table["fill"] == 100 and problem.shape[0] > 20 else 1.0
        if problem.shape not in tuned_on and fill < 1:
            fill = 1.2
        return best_at_8(problem, table) * fill

    outcome = tune(Fake(cost))
    assert outcome.values == {"tile": 8}
    first, second = outcome.verified
    assert first.values == {"tile": 8, "fill": 100} and second.values == {"tile": 8}


def test_a_value_that_crashes_costs_that_value() -> None:
    bench = Fake(best_at_8)
    bench.broken = {"'tile': 8": "failed: the process was killed by SIGSEGV"}
    outcome = tune(bench)
    assert outcome.values == {"tile": 16}
    assert outcome.findings and all("tile" in finding and "SIGSEGV" in finding for finding in outcome.findings)
    (lost,) = [trial for trial in outcome.trials if trial.value == 8 and trial.against == 4]
    assert "SIGSEGV" in lost.reason and lost.ratio is None


def test_a_value_that_is_refused_is_no_finding() -> None:
    bench = Fake(best_at_8)
    bench.broken = {"'tile': 8": "refused: out of memory"}
    outcome = tune(bench)
    assert outcome.values == {"tile": 16} and not outcome.findings


def test_a_shipped_table_that_fails_is_a_finding_and_changes_nothing() -> None:
    bench = Fake(best_at_8)
    bench.broken = {"'tile': 4": "wrong: 3 of 64 elements wrong"}
    outcome = tune(bench)
    assert outcome.values == {} and outcome.findings


def test_a_value_of_the_same_plan_is_not_measured_twice() -> None:
    class Few(Fake):
        def plans(self, id: str, problems: Sequence[Problem], values: Sequence[Values]) -> list[list[str]]:
            return [["wide" if (SHIPPED | table)["tile"] >= 8 else "narrow" for table in values] for _ in problems]

    bench = Few(best_at_8)
    tune(bench)
    assert all(len(values) == 2 for _, _, values in bench.raced)


def test_other_variants_show_what_auto_does_not() -> None:
    class Named(Fake):
        def plans(self, id: str, problems: Sequence[Problem], values: Sequence[Values]) -> list[list[str]]:
            if id.endswith("/auto"):
                return [["one" for _ in values] for _ in problems]
            return super().plans(id, problems, values)

    bench = Named(best_at_8)
    outcome = tuner(bench, variants=("auto", "split")).run()
    assert outcome.values == {"tile": 8}
    assert {id for id, _, _ in bench.raced} == {"toy/softmax/split"}


def test_time_runs_out() -> None:
    bench = Fake(best_at_8)
    outcome = tune(bench, time_limit=3)
    assert outcome.values == {"tile": 8}
    assert outcome.unmeasured["fill"] == outcome.unmeasured["idle"] == "no time was left"
    assert not tune(Fake(best_at_8), time_limit=0).values


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(TuningError, match="rounds can't tell"):
        Tuner(KNOBS, ["toy/softmax/auto"], POOL, Fake(flat).plans, Fake(flat).race, rounds=6)
