"""Intervals and verdicts: right by hand on small examples, and right as often as they claim, by simulation.

A simulation here is of fixed seed, and its bounds stand three standard errors from what the statistics page says.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scripts
from numpy.typing import NDArray

from kernelzoo.measure.statistics import (
    FEWEST,
    Interval,
    SamplesError,
    Verdict,
    can_stop_race,
    median_interval,
    noisy,
    ratio_interval,
    regression,
    verdict,
    why_unclear,
)

Array = NDArray[np.float64]


# --- by hand -----------------------------------------------------------------------------------------------------


def test_the_interval_of_order_statistics_by_hand() -> None:
    """Nine samples: the second to the eighth hold 96.1 %, the third to the seventh 82.0 %; between them 95 %."""
    share = (246 / 256 - 0.95) / (246 / 256 - 210 / 256)
    weight = (9 - 2) * share / (2 + (9 - 4) * share)
    found = median_interval([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (found.low, found.mid, found.high) == pytest.approx((2 + weight, 5, 8 - weight))
    exact = median_interval([9, 1, 8, 2, 7, 3, 6, 4, 5], confidence=246 / 256)
    assert (exact.low, exact.mid, exact.high) == pytest.approx((2, 5, 8))


def test_more_confidence_is_a_wider_interval() -> None:
    samples = list(np.random.default_rng(1).normal(10, 1, 20))
    widths = [median_interval(samples, confidence=c).relative_half_width for c in (0.5, 0.8, 0.9, 0.95, 0.99)]
    assert widths == sorted(widths) and len(set(widths)) == 5


@pytest.mark.parametrize("count", [1, 2, 5])
def test_too_few_samples_bound_nothing(count: int) -> None:
    found = median_interval([1.0] * count)
    assert (found.low, found.mid, found.high) == (-math.inf, 1.0, math.inf)
    assert found.relative_half_width == math.inf
    ratio = ratio_interval([1.0] * count, [2.0] * count, paired=True)
    assert (ratio.low, ratio.mid, ratio.high) == (0.0, 0.5, math.inf)
    assert ratio_interval([1.0] * count, [2.0] * 20, paired=False).high == math.inf
    assert verdict(ratio) is Verdict.UNCLEAR
    assert median_interval([1.0] * FEWEST).high == 1.0


def test_equal_samples_give_equal_intervals() -> None:
    a, b = np.random.default_rng(2).normal(10, 1, (2, 15))
    assert ratio_interval(a, b, paired=True) == ratio_interval(list(a), tuple(b), paired=True)
    assert median_interval(a) == median_interval(a[::-1])


@pytest.mark.parametrize("paired", [True, False])
def test_swapping_the_two_inverts_the_ratio_and_the_unit_of_time_does_not_matter(paired: bool) -> None:
    a, b = np.random.default_rng(3).lognormal(0, 0.1, (2, 11))
    one, other = ratio_interval(a, b, paired=paired), ratio_interval(b * 1e-6, a * 1e-6, paired=paired)
    assert (one.low, one.mid, one.high) == pytest.approx((1 / other.high, 1 / other.mid, 1 / other.low))
    assert one.low < one.mid < one.high


def test_what_slows_a_whole_round_cancels_when_paired() -> None:
    rounds = np.array([1, 5, 2, 9, 3, 7, 4, 8, 6.0])
    paired = ratio_interval(2 * rounds, rounds, paired=True)
    assert (paired.low, paired.mid, paired.high) == pytest.approx((2, 2, 2))
    apart = ratio_interval(2 * rounds, rounds, paired=False)
    assert apart.mid == pytest.approx(2)
    assert apart.low < 1 < 4 < apart.high


def test_two_runs_join_the_intervals_of_their_medians() -> None:
    """Where one of them does not vary, the ratio's interval is the other's; where both do, their squares add up."""
    rng = np.random.default_rng(5)
    a, b = rng.lognormal(0, 0.1, 15), rng.lognormal(0, 0.2, 9)
    fixed, own = ratio_interval(a, [2.0] * 7, paired=False), median_interval(np.log(a))
    assert (fixed.low, fixed.high) == pytest.approx((math.exp(own.low) / 2, math.exp(own.high) / 2))
    other = median_interval(np.log(b))
    both = ratio_interval(a, b, paired=False)
    assert math.log(both.mid / both.low) ** 2 == pytest.approx((own.mid - own.low) ** 2 + (other.high - other.mid) ** 2)
    assert math.log(both.high / both.mid) ** 2 == pytest.approx(
        (own.high - own.mid) ** 2 + (other.mid - other.low) ** 2
    )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.995, 1.004, Verdict.SAME),
        (0.991, 0.999, Verdict.SAME),  # surely below 1, and by too little to matter
        (1.001, 1.009, Verdict.SAME),
        (0.99, 1.01, Verdict.SAME),
        (0.985, 0.989, Verdict.FASTER),
        (0.5, 0.6, Verdict.FASTER),
        (1.011, 1.02, Verdict.SLOWER),
        (1.2, 1.3, Verdict.SLOWER),
        (0.985, 0.995, Verdict.UNCLEAR),  # within 1 % or not: it can't tell
        (0.985, 0.99, Verdict.UNCLEAR),
        (0.985, 0.999, Verdict.UNCLEAR),
        (1.001, 1.02, Verdict.UNCLEAR),
        (1.01, 1.02, Verdict.UNCLEAR),
        (0.985, 1.0, Verdict.UNCLEAR),
        (1.0, 1.02, Verdict.UNCLEAR),
        (0.98, 1.005, Verdict.UNCLEAR),
        (0.0, math.inf, Verdict.UNCLEAR),
    ],
)
def test_verdict(low: float, high: float, expected: Verdict) -> None:
    assert verdict(Interval(low, (low + min(high, 2)) / 2, high)) is expected


def test_what_is_disturbed_or_hangs_together_is_unclear() -> None:
    faster, same, near = Interval(0.6, 0.65, 0.7), Interval(0.995, 1.0, 1.005), Interval(0.985, 0.99, 0.995)
    assert verdict(faster, disturbed=True) is verdict(same, disturbed=True) is Verdict.UNCLEAR
    few = ratio_interval([1.0] * (FEWEST - 1), [2.0] * (FEWEST - 1), paired=True)
    assert why_unclear(few) == "fewer than 6 rounds can't tell"
    assert why_unclear(same, disturbed=True) == "the device stayed disturbed"
    assert why_unclear(near) == "the interval contains a difference of 1%" and why_unclear(faster) == ""
    drifting = replace(faster, lag=0.62)
    assert verdict(drifting) is verdict(replace(faster, low=1.6, high=1.9, lag=0.62)) is Verdict.UNCLEAR
    assert why_unclear(drifting) == "rounds are autocorrelated (lag 1: 0.62)"
    assert verdict(replace(same, lag=0.62)) is Verdict.SAME  # its interval allows for the most that is possible
    assert verdict(replace(faster, high=0.49, lag=0.62)) is Verdict.FASTER  # no drift makes that of nothing
    assert verdict(replace(faster, low=2.1, high=3.0, lag=0.62)) is Verdict.SLOWER


def test_the_lag_of_paired_rounds_by_hand() -> None:
    """Of a steady rise the ranks differ by 1 each: 1 - (n - 1) / 2 / (n^3 - n) * 12. Chance and zigzags are none."""
    n = 15
    rise = np.exp(np.arange(n) / 1000)
    found = ratio_interval(rise, np.ones(n), paired=True)
    assert found.lag == pytest.approx(1 - 6 * (n - 1) / (n**3 - n))
    own = median_interval(np.log(rise))  # widened as for a correlation of 0.99
    assert math.log(found.high / found.mid) == pytest.approx(math.sqrt(1.99 / 0.01) * (own.high - own.mid))
    far = ratio_interval([*rise[:-1], 1e3], np.ones(n), paired=True)
    assert far.lag == pytest.approx(found.lag)  # one far out hides nothing
    for others in (np.exp((-1.0) ** np.arange(n) / 1000), np.ones(n), np.exp([0.001, 0, 0, 0.001, 0.001, 0, 0, 0.001])):
        assert ratio_interval(others, np.ones(len(others)), paired=True).lag == 0
    assert ratio_interval(rise, np.ones(n), paired=False).lag == 0


def test_when_a_race_has_rounds_enough() -> None:
    flat, noisy_one = [1.0] * 15, list(np.random.default_rng(6).lognormal(0, 0.1, 15))
    assert can_stop_race([flat]) and can_stop_race([flat, flat, [2.0] * 15])
    assert not can_stop_race([flat, flat, noisy_one])
    assert can_stop_race([flat[:5], noisy_one[:5]])  # too few to ever tell


def test_the_margin_is_the_callers() -> None:
    ratio = Interval(0.96, 0.97, 0.98)
    assert verdict(ratio) is Verdict.FASTER
    assert verdict(ratio, margin=0.05) is Verdict.SAME
    assert verdict(Interval(0.996, 0.997, 0.998), margin=0.001) is Verdict.FASTER
    assert str(Verdict.SAME) == "same"


def test_what_is_too_noisy_for_a_baseline() -> None:
    steady = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0]
    assert noisy(steady, 0.05) == ""
    assert "±" in noisy(steady, 0.01) and "allowed is 1.0%" in noisy(steady, 0.01)
    assert noisy(steady[:5], 0.05) == "5 samples; a baseline needs at least 6"
    assert noisy([], 0.05).startswith("0 samples")
    assert noisy([*steady, *steady, 5.0], 0.05) == ""  # one sample far out does not make the median uncertain


@pytest.mark.parametrize(
    ("factor", "spread", "slower", "unclear"),
    [(1.0, 0.002, False, False), (1.2, 0.002, True, False), (1.05, 0.02, False, True), (1.0, 0.2, False, True)],
)
def test_regression(factor: float, spread: float, slower: bool, unclear: bool) -> None:
    steps = np.linspace(-1, 1, 15)
    found = regression(factor * (1 + spread * steps), 1 + spread * steps[::-1])
    assert (found.slower, found.unclear) == (slower, unclear)
    assert found.ratio.mid == pytest.approx(factor)


def test_regression_holds_what_is_allowed_against_the_low_end() -> None:
    fast, slow = [1.0] * 9, [1.08] * 9
    assert regression(slow, fast).slower
    assert not regression(slow, fast, allowed=0.1).slower
    assert not regression(fast, slow).slower and not regression(fast, slow).unclear
    rounds = np.array([1, 5, 2, 9, 3, 7, 4, 8, 6.0])
    assert regression(1.1 * rounds, rounds).unclear


def test_samples_that_say_nothing_are_an_error() -> None:
    with pytest.raises(SamplesError, match="no samples"):
        median_interval([])
    with pytest.raises(SamplesError, match="9 and 8 of them"):
        ratio_interval([1.0] * 9, [1.0] * 8, paired=True)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(SamplesError, match="positive, finite number of seconds"):
            ratio_interval([1.0] * 8 + [bad], [1.0] * 9, paired=False)
    assert issubclass(SamplesError, ValueError)


# --- by simulation -----------------------------------------------------------------------------------------------


Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Lognormal; its median is 0."""
    return np.expm1(0.75 * rng.standard_normal(shape)) / 1.1


def outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A tenth lies far out, and on one side, which moves the median too."""
    return rng.standard_normal(shape) + (rng.random(shape) < 0.1) * rng.exponential(6, shape)


def slow_first(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Eight times the noise on the first round, half of it at random: a device that was not warm."""
    noise = rng.standard_normal(shape)
    noise[..., 0] += 8 + 4 * rng.standard_normal(shape[:-1])
    return noise


SIMULATION = scripts.loaded(Path(__file__).parents[2] / "bench" / "verdicts.py")
PAGE = Path(__file__).parents[2] / "docs" / "records" / "statistics.md"


def drift(rng: np.random.Generator, shape: tuple[int, ...], *, size: float = 3.0, memory: float = 0.9) -> Array:
    """Noise that hangs together from round to round: a clock, a temperature, a neighbour."""
    found: Array = size * SIMULATION.hanging_together(rng, *shape, memory)
    return found


def times(noise: Array, percent: float) -> Array:
    """Seconds around 20 us with that much noise in a sample."""
    return 20e-6 * np.exp(percent / 100 * noise)


RACES = 1000


def held(inside: list[bool]) -> float:
    return 100 * sum(inside) / len(inside)


@pytest.mark.parametrize("rounds", [7, 9, 15])
@pytest.mark.parametrize("noise", [normal, skewed, outliers])
def test_the_median_is_in_its_interval_as_often_as_claimed(noise: Noise, rounds: int) -> None:
    rng = np.random.default_rng(11)
    true = float(np.median(noise(rng, (1_000_001,))))
    intervals = [median_interval(row) for row in noise(rng, (RACES, rounds))]
    assert 92.9 < held([i.low <= true <= i.high for i in intervals]) < 97.1


def test_samples_that_drift_tell_less_than_their_number_says() -> None:
    """The limit that the documentation names: neighbours correlated by 0.5."""
    rows = drift(np.random.default_rng(12), (RACES, 15), size=1.0, memory=0.5)
    assert 75 < held([i.low <= 0 <= i.high for i in map(median_interval, rows)]) < 84


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("rounds", [9, 15])
@pytest.mark.parametrize("noise", [normal, skewed, outliers, slow_first])
def test_the_ratio_is_in_its_interval_as_often_as_claimed(noise: Noise, rounds: int, paired: bool) -> None:
    rng = np.random.default_rng(13)
    a, b = times(noise(rng, (RACES, rounds)), 0.5) * 1.1, times(noise(rng, (RACES, rounds)), 0.5)
    intervals = [ratio_interval(x, y, paired=paired) for x, y in zip(a, b, strict=True)]
    assert (92.9 if paired else 95) < held([i.low <= 1.1 <= i.high for i in intervals])
    assert held([i.high < 1.1 for i in intervals]) == pytest.approx(held([i.low > 1.1 for i in intervals]), abs=2.5)


LONG = 60
"""Rounds of the longest race that begins with 15."""


def races(noise: Noise, percent: float, common: float, offset: float) -> Array:
    """The ratios in races of a kernel with itself, in logarithms: noise of its own in each lane, a drift common to
    both, an offset of one lane."""
    rng = np.random.default_rng(14)
    shared = drift(rng, (RACES, LONG), size=common)
    a, b = (times(noise(rng, (RACES, LONG)) + shared, percent) for _ in range(2))
    return np.log(a / b) + math.log1p(offset / 100)


def verdicts(logs: Array, ratio: float = 1.0) -> Counter[Verdict]:
    """In percent, of races that are made longer until they tell."""
    said: Counter[Verdict] = SIMULATION.simulated(logs, 100, ratio=ratio).said
    return said


@pytest.mark.parametrize(
    ("noise", "percent", "common", "offset"),
    [
        (normal, 0.2, 0.0, 0.0),
        (normal, 0.5, 3.0, 0.0),
        (normal, 0.2, 0.0, 0.3),
        (normal, 0.5, 0.0, 0.3),
        (skewed, 0.5, 3.0, 0.0),
        (outliers, 0.3, 3.0, 0.0),
        (slow_first, 0.3, 0.0, 0.3),
    ],
)
def test_a_kernel_raced_with_itself_is_the_same(noise: Noise, percent: float, common: float, offset: float) -> None:
    """At least 95 in 100 races; and none that says it is faster or slower than itself."""
    found = verdicts(races(noise, percent, common, offset))
    assert found[Verdict.SAME] >= 95
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] == 0


def page_lines() -> list[list[float]]:
    """Of the table on the page: correlation, noise, and what was simulated."""
    lines = [line.strip("| ").replace(" %", "").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    return [list(map(float, line)) for line in lines if len(line) == 7 and line[0] in ("0", "0.5", "0.9")]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_rounds_that_hang_together_make_no_false_verdicts(correlation: float) -> None:
    """As often as the page says; and false in 2 of 100 races at most, whatever the noise."""
    rng, count = np.random.default_rng(20), 250
    lines = [line for line in page_lines() if line[0] == correlation]
    assert [line[1] for line in lines] == list(SIMULATION.NOISES)
    for _, percent, *said, _ in lines:
        found = SIMULATION.simulated(SIMULATION.hanging_together(rng, count, LONG, correlation), percent)
        for now, then in zip(
            (found.holds, found.said[Verdict.SAME], found.false, found.said[Verdict.UNCLEAR]), said, strict=True
        ):
            share = min(max((now * count + then * 3000) / (count + 3000), 0.5), 99.5)  # rarer is not normal
            error = math.sqrt(share * (100 - share) * (1 / count + 1 / 3000))
            assert abs(now - then) <= 3 * error + 0.1, (percent, found)
        assert said[2] <= 2 and said[0] >= 95
        assert found.false <= 2 + 3 * math.sqrt(2 * 98 / count)


def test_noise_is_unclear_and_not_a_difference() -> None:
    """Noise of 2 %: the race can't tell, and says so."""
    found = verdicts(races(normal, 2.0, 3.0, 0.0))
    assert found[Verdict.UNCLEAR] > 90
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= 2


@pytest.mark.parametrize("percent", [0.2, 0.5])
def test_what_is_faster_by_3_percent_is_seen(percent: float) -> None:
    logs = races(normal, percent, 3.0, 0.0)
    assert verdicts(logs, 0.97)[Verdict.FASTER] > 95
    assert verdicts(logs, 1 / 0.97)[Verdict.SLOWER] > 95


def test_regressions_between_two_runs() -> None:
    """Nine rounds with noise of 0.5 %, on machines that differ by 1 %: a slowdown of 10 % is seen, and none is not."""
    rng = np.random.default_rng(15)
    new, old = (times(normal(rng, (RACES, 9)), 0.5) * np.exp(0.01 * rng.standard_normal((RACES, 1))) for _ in "ab")
    assert held([regression(a, b).slower for a, b in zip(new * 1.10, old, strict=True)]) > 99
    assert held([regression(a, b).slower for a, b in zip(new, old, strict=True)]) == 0
    assert held([regression(a, b).unclear for a, b in zip(new, old, strict=True)]) < 3
