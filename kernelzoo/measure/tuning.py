"""Tuning of a launch table's knobs by coordinate descent over measured races.

It knows no language and no device: its caller passes functions that plan and race. A change is accepted if it is
faster, with a confidence for all changes together. On held-out problems, the final table must beat the shipped one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kernelzoo.errors import KernelZooError
from kernelzoo.measure.planning import REFUSED
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.statistics import Interval, Verdict, ratio_interval, verdict
from kernelzoo.tables import Knob

SLOWEST = 0.03
"""The largest accepted slowdown of any problem, however much faster the others are."""

CONFIDENCE = 0.95
"""Confidence that no accepted change is due to chance, and that the whole table is faster."""

PROBLEMS = 8
"""The number of problems that a knob is measured on."""

HELD_OUT = 24
"""The most held-out problems of each implementation on which a table is verified."""

PASSES = 2
"""The number of passes over the knobs. The second runs only if the first changed something."""

VERIFYING = 0.25
"""The share of the time that is reserved for verifying."""

Values = dict[str, int]
Races = list[dict[int, list[float]]]
"""For each problem, the samples of each value of a knob."""

Plans: TypeAlias = Callable[[str, Sequence[Problem], Sequence[Values]], list[list[str]]]
"""A function that returns an implementation's plan for each problem, with each table. Equal plans mean equal launches;
``refused`` means no launch."""

Race: TypeAlias = Callable[[str, Problem, Mapping[str, Values], int], tuple[dict[str, list[float]], dict[str, str]]]
"""A function that races an implementation on a problem, once with each named table, for a number of rounds. Returns
samples in seconds by table name, and for tables without samples the reasons."""


class TuningError(KernelZooError, ValueError):
    """A request to tune can't give a verdict."""


@dataclass(frozen=True)
class KnobEffect:
    """One implementation's problems for which the value of a knob changes the plan, which says what is launched."""

    id: str
    problems: tuple[Problem, ...]
    plans: tuple[tuple[str, ...], ...]
    """For each problem, the plan with each value of the knob."""
    affected: int
    """The number of problems of the pool that the knob affects; ``problems`` are some of them."""


@dataclass(frozen=True)
class Trial:
    """The comparison of one value of a knob with the current value."""

    knob: str
    value: int
    against: int
    id: str
    problems: tuple[str, ...]
    ratio: Interval | None = None
    """The time divided by the current value's time, as a geometric mean over the problems."""
    worst: float | None = None
    """The largest ratio of a single problem."""
    verdict: str = ""
    taken: bool = False
    reason: str = ""
    """The reason why there is no ratio, or why a faster value was not accepted."""


@dataclass(frozen=True)
class TableVerdict:
    """The comparison of a complete table with the shipped one."""

    values: Values
    ratio: Interval | None
    worst: float | None
    verdict: str
    problems: tuple[str, ...]
    held_out: bool
    """Whether the table was not tuned on these problems."""


@dataclass
class TuningOutcome:
    backend: str
    op: str
    values: Values = field(default_factory=dict)
    """The knobs to store, whose values are better than the shipped ones; empty if there are none."""
    trials: list[Trial] = field(default_factory=list)
    verified: list[TableVerdict] = field(default_factory=list)
    unmeasured: dict[str, str] = field(default_factory=dict)
    """The knobs that were not measured, with the reasons."""
    findings: list[str] = field(default_factory=list)
    """Values with which an implementation was wrong or failed."""
    seconds: float = 0.0


class Tuner:
    """The tuner of one table.

    ``ids``: the implementations that use the table, by preference. ``pool``: the problems; every second shape is held
    out for verifying. ``tell``: called with each step and the fraction done. Raises TuningError if rounds are too few.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        ids: Sequence[str],
        pool: Sequence[Problem],
        plans: Plans,
        race: Race,
        *,
        rounds: int = 15,
        time_limit: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str, float], None] = lambda words, share: None,
    ) -> None:
        self.knobs, self.ids, self.plans, self.race, self.rounds = tuple(knobs), tuple(ids), plans, race, rounds
        places = {place: k for k, place in enumerate(dict.fromkeys((p.shape, p.dim) for p in pool))}
        self.pool = [p for p in pool if places[p.shape, p.dim] % 2 == 0]
        self.held = [p for p in pool if places[p.shape, p.dim] % 2]
        self._clock, self._limit, self._tell = clock, time_limit, tell
        tests = PASSES * sum(len(knob.among) - 1 for knob in self.knobs)
        self.confidence = 1 - (1 - CONFIDENCE) / max(1, tests)
        least = math.ceil(math.log2(2 / (1 - self.confidence)))
        if rounds < least:
            raise TuningError(f"{rounds} rounds can't tell {tests} changes apart from chance; at least {least} can")

    def find_knob_effects(self, knobs: Sequence[Knob], values: Values) -> list[KnobEffect | None]:
        """Return problems that each knob affects, with other knobs at ``values``; None if it changes no launch."""
        left, found = list(knobs), dict[str, KnobEffect]()
        for id in self.ids:
            if left:  # all tables in one call, since planning may start a process
                tables = [{**values, knob.name: value} for knob in left for value in knob.among]
                plans = [iter(of_tables) for of_tables in self.plans(id, self.pool, tables)]
                for knob in left:
                    of_values = [[next(plan) for _ in knob.among] for plan in plans]
                    now = values.get(knob.name, knob.shipped)
                    if (site := _find_knob_effect(id, knob, now, self.pool, of_values)) is not None:
                        found[knob.name] = site
                left = [knob for knob in left if knob.name not in found]
        return [found.get(knob.name) for knob in knobs]

    def run(self) -> TuningOutcome:
        """Tune the knobs, verify them against the shipped table, and return the outcome."""
        backend, op, _ = self.ids[0].split("/")
        outcome, started = TuningOutcome(backend, op), self._clock()
        until = started + self._limit * (1 - VERIFYING)
        current: Values = {}
        for turn in range(PASSES):
            before = dict(current)
            for index, knob in enumerate(self.knobs):
                self._tell(knob.name, (turn + index / len(self.knobs)) / PASSES * (1 - VERIFYING))
                if self._clock() >= until:
                    if not turn:
                        outcome.unmeasured[knob.name] = "no time was left"
                    continue
                self._tune_knob(knob, current, outcome, turn)
            if current == before:
                break
        if current:
            self._verify(current, outcome)
        outcome.seconds = self._clock() - started
        return outcome

    def _tune_knob(self, knob: Knob, current: Values, outcome: TuningOutcome, turn: int) -> None:
        (site,) = self.find_knob_effects([knob], current)
        if site is None:
            if not turn:
                outcome.unmeasured[knob.name] = "it changes no plan of the problems here"
            return
        now = current.get(knob.name, knob.shipped)
        races, lost = self._race_values(knob, now, site, current, outcome)
        trials = [self._judge(knob, value, now, site, races, lost) for value in knob.among if value != now]
        better = [trial for trial in trials if trial.verdict == Verdict.FASTER and not trial.reason and trial.ratio]
        best = min(better, key=lambda trial: trial.ratio.mid if trial.ratio else math.inf, default=None)
        outcome.trials += [replace(trial, taken=trial is best) for trial in trials]
        if best is not None:
            current[knob.name] = best.value
            if best.value == knob.shipped:
                del current[knob.name]

    def _race_values(
        self, knob: Knob, now: int, site: KnobEffect, current: Values, outcome: TuningOutcome
    ) -> tuple[Races, dict[int, str]]:
        """Race a knob's values. Values with equal plans share samples. Returns samples, and why values failed."""
        races, lost = Races(), dict[int, str]()
        for problem, plans in zip(site.problems, site.plans, strict=True):
            plan_of = dict(zip(knob.among, plans, strict=True))
            # One lane for each plan. The current value comes last, so that its plan is named after it.
            lanes = {plan_of[value]: value for value in (*reversed(knob.among), now) if value not in lost}
            tables = {f"{knob.name}={value}": {**current, knob.name: value} for value in lanes.values()}
            samples, failed = self.race(site.id, problem, tables, self.rounds)
            by_plan = {plan: samples.get(f"{knob.name}={value}", []) for plan, value in lanes.items()}
            races.append({value: by_plan.get(plan_of[value], []) for value in knob.among})
            for plan, value in lanes.items():
                why = failed.get(f"{knob.name}={value}")
                if why and not why.startswith(REFUSED):
                    outcome.findings.append(f"{site.id} with {tables[f'{knob.name}={value}']}, {problem.id}: {why}")
                if why and plan != plan_of[now]:
                    lost |= {v: f"{why} ({problem.id})" for v in knob.among if plan_of[v] == plan}
        return races, lost

    def _judge(self, knob: Knob, value: int, now: int, site: KnobEffect, races: Races, lost: dict[int, str]) -> Trial:
        """Judge one value against the current one, on the problems where their plans differ."""
        at = [knob.among.index(value), knob.among.index(now)]
        differ = [k for k, plans in enumerate(site.plans) if plans[at[0]] != plans[at[1]]]
        trial = Trial(knob.name, value, now, site.id, tuple(site.problems[k].id for k in differ))
        if value in lost:
            return replace(trial, reason=lost[value])
        pairs = [(races[k][value], races[k][now]) for k in differ if races[k][value] and races[k][now]]
        if not pairs:
            return replace(trial, reason="no problem here tells it from the current value")
        ratio, worst = _combine(pairs, self.confidence)
        said = verdict(ratio)
        slow = f"a problem is {worst - 1:.1%} slower" if said is Verdict.FASTER and worst > 1 + SLOWEST else ""
        return replace(trial, ratio=ratio, worst=worst, verdict=said.value, reason=slow)

    def _verify(self, current: Values, outcome: TuningOutcome) -> None:
        """Race a table against the shipped one. Remove knobs that slow a problem until it is faster or has none."""
        values = dict(current)
        while values:
            self._tell("verifying", 1 - VERIFYING)
            found, slow = self._race_shipped(values, outcome)
            outcome.verified.append(found)
            if found.verdict == Verdict.FASTER and not slow:
                outcome.values = values
                return
            blamed = {name for id, problem in slow for name in self._slowing_knobs(id, problem, values)}
            values = {name: value for name, value in values.items() if name not in blamed} if blamed else {}

    def _race_shipped(self, values: Values, outcome: TuningOutcome) -> tuple[TableVerdict, list[tuple[str, Problem]]]:
        sites = self._changed_plans(values, self.held)
        held_out = bool(sites)
        if not sites:
            sites = self._changed_plans(values, self.pool)
        pairs, slow = list[tuple[list[float], list[float]]](), list[tuple[str, Problem]]()
        for id, problem in sites:
            samples, failed = self.race(id, problem, {"shipped": {}, "tuned": values}, self.rounds)
            if "tuned" in failed and not failed["tuned"].startswith(REFUSED):
                outcome.findings.append(f"{id} with {values}: {failed['tuned']} ({problem.id})")
            if not samples.get("tuned") and samples.get("shipped"):
                slow.append((id, problem))
            elif samples.get("tuned") and samples.get("shipped"):
                pairs.append((samples["tuned"], samples["shipped"]))
                if _combine(pairs[-1:], CONFIDENCE)[1] > 1 + SLOWEST:
                    slow.append((id, problem))
        found = TableVerdict(dict(values), None, None, "", tuple(f"{id} {p.id}" for id, p in sites), held_out)
        if pairs:
            ratio, worst = _combine(pairs, CONFIDENCE)
            found = replace(found, ratio=ratio, worst=worst, verdict=verdict(ratio).value)
        return found, slow

    def _changed_plans(self, values: Values, problems: Sequence[Problem]) -> list[tuple[str, Problem]]:
        """Return ids with problems whose plans ``values`` change. Each id adds knobs that affect no earlier id."""
        found, shown = list[tuple[str, Problem]](), set[str]()
        for id in self.ids:
            left = [name for name in values if name not in shown]
            if not left:
                break
            alone = [{k: v for k, v in values.items() if k != name} for name in left]
            plans = self.plans(id, problems, [{}, values, *alone])
            differ = [
                (problem, {name for name, plan in zip(left, rest, strict=True) if plan != tuned})
                for problem, (shipped, tuned, *rest) in zip(problems, plans, strict=True)
                if shipped != tuned and REFUSED not in (shipped, tuned)
            ]
            told = {name for _, names in differ for name in names}
            if not told:
                continue
            shown |= told
            # One problem for every knob, then others evenly.
            first = [next(problem for problem, names in differ if name in names) for name in sorted(told)]
            found += [(id, problem) for problem in _pick_spread(first, [problem for problem, _ in differ], HELD_OUT)]
        return found

    def _slowing_knobs(self, id: str, problem: Problem, values: Values) -> set[str]:
        """Return the knobs that slow a problem: those whose removal makes it faster, or else all that affect it."""
        without = {name: {k: v for k, v in values.items() if k != name} for name in values}
        ((whole, *rest),) = self.plans(id, [problem], [values, *without.values()])
        left = {name: of for (name, of), plan in zip(without.items(), rest, strict=True) if plan != whole}
        if len(left) < 2:
            return set(left)
        samples, _ = self.race(id, problem, {"tuned": values, **left}, self.rounds)
        base = samples.get("tuned", [])
        ratios = {
            name: ratio_interval(samples[name], base, paired=True, independent=True)
            for name in left
            if samples.get(name) and base
        }
        return {name for name, ratio in ratios.items() if verdict(ratio) is Verdict.FASTER} or set(left)


def _find_knob_effect(
    id: str, knob: Knob, now: int, pool: Sequence[Problem], plans: Sequence[Sequence[str]]
) -> KnobEffect | None:
    """Return problems of ``id`` that a knob affects, with one for each value that does; None if there are none."""
    affected = {
        problem: tuple(of_values)
        for problem, of_values in zip(pool, plans, strict=True)
        if len(set(of_values)) > 1 and REFUSED not in of_values
    }
    if not affected:
        return None
    at = knob.among.index(now)
    others = [k for k in range(len(knob.among)) if k != at]
    telling = []
    for turn, k in enumerate(others):
        those = [p for p, of_values in affected.items() if of_values[k] != of_values[at]]
        telling += [those[(2 * turn + 1) * len(those) // (2 * len(others))]] if those else []
    chosen = _pick_spread(telling, list(affected), PROBLEMS)
    return KnobEffect(id, tuple(chosen), tuple(affected[problem] for problem in chosen), len(affected))


def _pick_spread(first: Sequence[Problem], others: Sequence[Problem], most: int) -> list[Problem]:
    """Return ``first`` without duplicates, then evenly spaced problems of ``others``, up to ``most`` in all."""
    chosen = list(dict.fromkeys(first))
    rest = [problem for problem in others if problem not in chosen]
    wanted = min(len(rest), max(0, most - len(chosen)))
    return chosen + [rest[(2 * k + 1) * len(rest) // (2 * wanted)] for k in range(wanted)]


def _combine(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], confidence: float) -> tuple[Interval, float]:
    """Return the ratio of times over all problems with its interval, and the largest ratio of a single problem."""
    logs = [[math.log(one / other) for one, other in zip(*pair, strict=True)] for pair in pairs]
    means = [math.exp(math.fsum(of_round) / len(of_round)) for of_round in zip(*logs, strict=True)]
    worst = max(ratio_interval(*pair, paired=True).mid for pair in pairs)
    ratio = ratio_interval(means, [1.0] * len(means), paired=True, confidence=confidence, independent=True)
    return ratio, worst
