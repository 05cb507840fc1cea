"""Confidence intervals of a median and of a ratio of times, and the verdicts from them.

All intervals come from order statistics, without random numbers, so equal samples give equal intervals.
docs/records/statistics.md says how often they hold the true value; tests/measure/test_statistics.py simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernelzoo.errors import KernelZooError

FEWEST = 6
"""The fewest samples for a 95 % interval of the median: the range of five samples has only 93.75 %."""

CAUTION = 3.5
"""The number of standard errors added to the autocorrelation of paired rounds; statistics.md compares other numbers."""

LONGEST = 4
"""A race without a verdict may run up to this many times the rounds asked for."""


class SamplesError(KernelZooError, ValueError):
    """There are no samples, a time is not positive, or paired samples differ in number."""


@dataclass(frozen=True)
class Interval:
    """An estimate, and a range that holds the true value with the given confidence."""

    low: float
    mid: float
    high: float
    lag: float = 0.0
    """Lag-1 autocorrelation of paired rounds; 0 if it is not significant."""

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width divided by the estimate; infinite if there are too few samples."""
        return (self.high - self.low) / 2 / self.mid


class Verdict(StrEnum):
    """The conclusion from a ratio of times."""

    FASTER = auto()
    SLOWER = auto()
    SAME = auto()
    UNCLEAR = auto()


@dataclass(frozen=True)
class Regression:
    """New samples compared with a baseline."""

    ratio: Interval
    """The new time divided by the baseline's time."""
    slower: bool
    """Whether the whole interval is above the allowed slowdown."""
    unclear: bool
    """Whether these samples can't tell: the interval reaches above the allowed slowdown, but ``slower`` is False."""


def median_interval(samples: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Return the median of the samples, and a confidence interval for the true median.

    The interval's ends are the k-th smallest and the k-th largest sample. The binomial distribution gives k. The ends
    are interpolated between two values of k (Hettmansperger and Sheather, Statistics & Probability Letters 4, 1986).
    The noise may have any distribution. Fewer than six samples at 95 % give (-inf, median, inf).

    Samples must come from interleaved rounds, because autocorrelated samples contain less information. Compare
    implementations by :func:`ratio_interval`, not by two such intervals. Raises SamplesError if there are no samples.
    """
    return _median(_checked_array(samples), confidence)


def ratio_interval(
    samples: Sequence[float],
    baseline: Sequence[float],
    *,
    paired: bool,
    confidence: float = 0.95,
    independent: bool = False,
) -> Interval:
    """Return the ratio of times, ``samples`` to ``baseline``, with its interval. Below 1, ``samples`` are faster.

    If ``paired``, sample i of both is from round i of one race. The estimate is the median of the ratios of all rounds,
    so a slowdown of a complete round cancels. It differs a little from the ratio of medians if the skews differ.
    Logarithms of the ratios give the :func:`median_interval`, so that swapping the arguments inverts it.
    Autocorrelated rounds contain less information, so the interval is widened, by a factor of about four for 15 rounds.
    The factor is sqrt((1 + a) / (1 - a)), where a bounds the autocorrelation. If ``independent``, it is not widened.

    If not ``paired``, the estimate is the ratio of two runs' medians. The interval combines their intervals (MOVER: Zou
    and Donner, Statistics in Medicine 27, 2008). It ignores that runs may differ in temperature or machine.

    Raises SamplesError if there are no samples, a time is not positive, or paired samples differ in number.
    """
    times, base = _logarithms(samples), _logarithms(baseline)
    if paired:
        if len(times) != len(base):
            raise SamplesError(
                f"paired samples are from the same rounds; got {len(times)} and {len(base)} of them; "
                "pass paired=False for two runs"
            )
        log = _median(times - base, confidence)
        log = log if independent else _widen(log, times - base)
    else:
        log = _difference_interval(_median(times, confidence), _median(base, confidence))
    return Interval(math.exp(log.low), math.exp(log.mid), math.exp(log.high), log.lag)


def verdict(ratio: Interval, *, margin: float = 0.01, disturbed: bool = False) -> Verdict:
    """Return the verdict on the ratio of two times: SAME, FASTER, SLOWER or UNCLEAR.

    SAME: the interval is between 1 - margin and 1 + margin, where differences do not matter. FASTER or SLOWER: it is
    completely below or above that range. UNCLEAR: any other interval, or the device stayed ``disturbed``. If rounds are
    significantly autocorrelated, FASTER needs an interval below 0.5, and SLOWER one above 2. See :func:`why_unclear`.

        >>> verdict(Interval(0.985, 0.987, 0.989)), verdict(Interval(0.985, 0.99, 0.995))
        (<Verdict.FASTER: 'faster'>, <Verdict.UNCLEAR: 'unclear'>)
    """
    if disturbed:
        return Verdict.UNCLEAR
    if 1 - margin <= ratio.low and ratio.high <= 1 + margin:
        return Verdict.SAME
    apart = ratio.low > 2 or ratio.high < 0.5
    if (1 - margin <= ratio.high and ratio.low <= 1 + margin) or (ratio.lag and not apart):
        return Verdict.UNCLEAR
    return Verdict.FASTER if ratio.high < 1 else Verdict.SLOWER


def why_unclear(ratio: Interval, *, disturbed: bool = False) -> str:
    """Return why :func:`verdict` says UNCLEAR for the same arguments; "" if it does not."""
    if verdict(ratio, disturbed=disturbed) is not Verdict.UNCLEAR:
        return ""
    if disturbed:
        return "the device stayed disturbed"
    if math.isinf(ratio.high):
        return f"fewer than {FEWEST} rounds can't tell"
    if ratio.lag:
        return f"rounds are autocorrelated (lag 1: {ratio.lag:.2f})"
    return "the interval contains a difference of 1%"


def can_stop_race(samples: Sequence[Sequence[float]]) -> bool:
    """Whether verdicts against the first implementation are all clear, or can't be since rounds are below FEWEST."""
    base, *others = samples
    return len(base) < FEWEST or all(
        verdict(ratio_interval(other, base, paired=True)) is not Verdict.UNCLEAR for other in others
    )


def noisy(samples: Sequence[float], allowed: float) -> str:
    """Return why samples are too noisy for a baseline; "" if not. ``allowed``: the slowdown to detect, 0.05 for 5 %."""
    if len(samples) < FEWEST:
        return f"{len(samples)} samples; a baseline needs at least {FEWEST}"
    half = median_interval(samples).relative_half_width
    if half > allowed:
        return f"its median is uncertain by ±{half:.1%}, and the slowdown allowed is {allowed:.1%}"
    return ""


def regression(
    samples: Sequence[float], against: Sequence[float], *, allowed: float = 0.05, disturbed: bool = False
) -> Regression:
    """Return whether ``samples`` are slower than ``against`` by more than ``allowed``, 0.05 for 5 %.

    ``disturbed``: other work may have slowed one run. Then even the fastest of ``samples`` must exceed the slowest of
    ``against`` by more than ``allowed``. Raises SamplesError as :func:`ratio_interval` does.
    """
    ratio = ratio_interval(samples, against, paired=False)
    slower = ratio.low > 1 + allowed and not (disturbed and min(samples) <= (1 + allowed) * max(against))
    return Regression(ratio, slower, unclear=not slower and ratio.high > 1 + allowed)


def _checked_array(samples: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(samples, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise SamplesError("no samples; measure at least one round")
    return array


def _logarithms(samples: Sequence[float]) -> NDArray[np.float64]:
    array = _checked_array(samples)
    if not (np.isfinite(array) & (array > 0)).all():
        raise SamplesError(f"a time is a positive, finite number of seconds; got {samples}")
    return np.log(array)


def _median(array: NDArray[np.float64], confidence: float) -> Interval:
    ordered, count = np.sort(array), len(array)
    middle = float(ordered[count // 2] + ordered[(count - 1) // 2]) / 2
    bound = _median_bounds(count, confidence)
    if bound is None:
        return Interval(-math.inf, middle, math.inf)
    k, weight = bound
    low = (1 - weight) * ordered[k] + weight * ordered[k + 1]
    high = (1 - weight) * ordered[-1 - k] + weight * ordered[-2 - k]
    return Interval(float(low), middle, float(high))


def _widen(interval: Interval, rounds: NDArray[np.float64]) -> Interval:
    """Widen an interval for autocorrelated rounds. The interval's ``lag`` is set if autocorrelation is significant.

    Ranks make the autocorrelation robust to outliers (Bartels, JASA 77, 1982). Its standard error is 1 / sqrt(n).
    """
    count = len(rounds)
    if math.isinf(interval.high) or interval.low == interval.high:
        return interval
    ordered = np.sort(rounds)
    ranks = ordered.searchsorted(rounds) + ordered.searchsorted(rounds, "right")  # ties share a rank
    steps, spread = ranks[1:] - ranks[:-1], ranks - count
    lag = 1 - float(steps @ steps / (spread @ spread)) / 2
    error = 1 / math.sqrt(count)
    allowed = min(max(lag + CAUTION * error, 0.0), 0.99)
    factor = math.sqrt((1 + allowed) / (1 - allowed))
    low, high = (interval.mid + factor * (end - interval.mid) for end in (interval.low, interval.high))
    return Interval(low, interval.mid, high, lag if lag > 1.645 * error else 0.0)


@lru_cache(maxsize=256)
def _median_bounds(count: int, confidence: float) -> tuple[int, float] | None:
    """Return the index k of the sorted sample, from either end, that bounds the median, and a weight w.

    The bound is (1 - w) * sample k + w * sample k + 1. None if all samples are too few for that confidence.
    """
    outside = [0]  # outside[k]: how many of 2^count equally likely cases have fewer than k samples below the median
    for k in range(count // 2 + 1):
        outside.append(outside[-1] + math.comb(count, k))
    coverage = [1 - 2 * cases / 2**count for cases in outside]  # coverage[k]: of k-th smallest to k-th largest
    enough = [k for k in range(1, count // 2 + 1) if coverage[k] >= confidence]
    if not enough:
        return None
    k = enough[-1]
    if k + 1 > count // 2:
        return k - 1, 0.0
    share = (coverage[k] - confidence) / (coverage[k] - coverage[k + 1])
    return k - 1, (count - k) * share / (k + (count - 2 * k) * share)


def _difference_interval(one: Interval, other: Interval) -> Interval:
    """Return the MOVER interval of the difference between two independent estimates."""
    mid = one.mid - other.mid
    return Interval(
        mid - math.hypot(one.mid - one.low, other.high - other.mid),
        mid,
        mid + math.hypot(one.high - one.mid, other.mid - other.low),
    )
