"""Statistics of samples: intervals of a median and of a ratio of medians, and the verdicts that follow from them.

Every interval is computed from order statistics, without random numbers: equal samples give equal intervals.
docs/records/statistics.md says how often each of them is right; tests/measure/test_statistics.py simulates it.
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
"""The fewest samples for an interval of the median at 95 %: the whole range of five has 93.75 %."""

CAUTION = 3.5
"""Standard errors above the measured autocorrelation that an interval of paired rounds allows for. Fewer let the races
of kernels with themselves differ too often while their rounds hang together; statistics.md has the simulation."""

LONGEST = 4
"""A race that tells nothing after the rounds asked for goes on, to this many times as many at most."""


class SamplesError(KernelZooError, ValueError):
    """Samples without a meaning: none at all, a time that is not positive, or numbers of rounds that differ."""


@dataclass(frozen=True)
class Interval:
    """An estimate, and a range that holds the true value with the given confidence."""

    low: float
    mid: float
    high: float
    lag: float = 0.0
    """Of paired rounds: how much each hangs together with the one before (lag-1), where that is more than chance; 0
    where it isn't."""

    @property
    def relative_half_width(self) -> float:
        """Half the range over the estimate; infinite where too few samples bound it."""
        return (self.high - self.low) / 2 / self.mid


class Verdict(StrEnum):
    """What follows from a ratio of times."""

    FASTER = auto()
    SLOWER = auto()
    SAME = auto()
    UNCLEAR = auto()


@dataclass(frozen=True)
class Regression:
    """New samples compared with a baseline's."""

    ratio: Interval
    """Time over that of the baseline."""
    slower: bool
    """Slower by more than is allowed, even at the interval's low end."""
    unclear: bool
    """The interval holds the limit: these samples can't tell."""


def median_interval(samples: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """The median of the samples, and an interval for the median of what they are drawn from.

    The interval of order statistics (the k-th smallest and the k-th largest sample, which hold the median with a
    probability that the binomial distribution gives), interpolated between two k to the confidence asked for
    (Hettmansperger and Sheather, Statistics & Probability Letters 4, 1986). It assumes no shape of the noise, nor
    symmetry. Fewer samples than any such interval needs, six at 95 %, give (-inf, median, inf).

    Simulated: the share of 20,000 experiments in which the 95 % interval holds the median, in percent.

        samples                           6     7     9    11    15    25
        normal noise                   94.9  94.7  95.2  94.9  94.9  95.2
        skewed (lognormal)             95.0  94.5  94.9  94.5  95.1  95.0
        a tenth of them far outliers   95.0  94.8  95.0  94.9  95.0  94.8
        two modes, 65 to 35            93.9  94.8  94.5  95.6  94.9  95.0
        drift: neighbours correlate by 0.5
                                       79.0  78.0  80.0  79.8  79.5  79.6
        percentile bootstrap, normal   93.5  87.2  96.6  93.5  93.1  95.0

    So interleaved rounds are needed all the same: samples that drift hold less information. Compare implementations by
    :func:`ratio_interval`, not by two of these intervals.

    Raises SamplesError if there are no samples.
    """
    return _median(_array(samples), confidence)


def ratio_interval(
    samples: Sequence[float],
    baseline: Sequence[float],
    *,
    paired: bool,
    confidence: float = 0.95,
    independent: bool = False,
) -> Interval:
    """The time of ``samples`` over that of ``baseline``: below 1 is faster.

    paired: sample i of both is from round i of one race. The estimate is the median of the rounds' ratios, and its
    interval that of :func:`median_interval`, on logarithms, so that swapping the two inverts it. What slows a whole
    round down cancels, which it does not in the ratio of the two medians. Where the two differ much in the skew of
    their noise, the median ratio is not exactly the ratio of the medians. Rounds that hang together tell less than
    their number says, so the interval is widened by sqrt((1 + a) / (1 - a)): a is the largest autocorrelation of
    neighbours that these rounds don't rule out, which is more the fewer they are. 15 rounds widen it about fourfold.
    ``independent`` widens nothing: the rounds are taken to tell as much as their number says.

    Not paired: two runs, each with samples of its own, and the ratio of their medians. Its interval joins those of the
    two medians (MOVER: Zou and Donner, Statistics in Medicine 27, 2008). What differed between the two runs, the
    temperature or the machine, is no part of it.

    Simulated, the interval of a race holds the true ratio in 98 % of races at least, whether neighbouring rounds are
    correlated by 0, 0.5 or 0.9; that of two runs in 97 to 100 %, and in 84 % if each has a drift of its own.

    Raises SamplesError if there are no samples, if a time is not positive, or if paired samples differ in number.
    """
    times, base = _logarithms(samples), _logarithms(baseline)
    if paired:
        if len(times) != len(base):
            raise SamplesError(
                f"paired samples are from the same rounds; got {len(times)} and {len(base)} of them; "
                "pass paired=False for two runs"
            )
        log = _median(times - base, confidence)
        log = log if independent else _widened(log, times - base)
    else:
        log = _difference(_median(times, confidence), _median(base, confidence))
    return Interval(_exp(log.low), _exp(log.mid), _exp(log.high), log.lag)


def verdict(ratio: Interval, *, margin: float = 0.01, disturbed: bool = False) -> Verdict:
    """What follows from the ratio of two times: SAME, FASTER, SLOWER or UNCLEAR.

    SAME if the whole interval lies within 1 - margin and 1 + margin, whether or not it holds 1: a difference that
    small is no reason to prefer either. FASTER if the whole interval lies below that, SLOWER if above. UNCLEAR
    otherwise; if the device stayed ``disturbed``; and where neighbouring rounds hang together by more than chance,
    instead of FASTER and SLOWER up to a factor of two. :func:`why_unclear` tells them apart.

        >>> verdict(Interval(0.985, 0.987, 0.989)), verdict(Interval(0.985, 0.99, 0.995))
        (<Verdict.FASTER: 'faster'>, <Verdict.UNCLEAR: 'unclear'>)

    Simulated, a race of a kernel with itself says FASTER or SLOWER 2 times in 100 at most, however large its noise is
    and if neighbouring rounds are correlated by 0.9.
    """
    if disturbed:
        return Verdict.UNCLEAR
    if 1 - margin <= ratio.low and ratio.high <= 1 + margin:
        return Verdict.SAME
    apart = ratio.low > 2 or ratio.high < 0.5
    if (1 - margin <= ratio.high and ratio.low <= 1 + margin) or (ratio.lag and not apart):
        return Verdict.UNCLEAR
    return Verdict.FASTER if ratio.high < 1 else Verdict.SLOWER


def why_unclear(ratio: Interval, *, margin: float = 0.01, disturbed: bool = False) -> str:
    """Why :func:`verdict` says UNCLEAR of the same, or "" if it doesn't."""
    if verdict(ratio, margin=margin, disturbed=disturbed) is not Verdict.UNCLEAR:
        return ""
    if disturbed:
        return "the device stayed disturbed"
    if ratio.lag:
        return f"rounds hang together (lag-1 autocorrelation {ratio.lag:.2f})"
    return f"the interval holds a difference of {margin:.0%}"


def settled(lanes: Sequence[Sequence[float]]) -> bool:
    """Whether no more rounds are needed: each lane's verdict against the first is known, or can't be."""
    base, *others = lanes
    return len(base) < FEWEST or all(
        verdict(ratio_interval(other, base, paired=True)) is not Verdict.UNCLEAR for other in others
    )


def noisy(samples: Sequence[float], allowed: float) -> str:
    """Why these samples can't be a baseline for later ones, or "".

    allowed: the slowdown that a comparison allows, 0.05 for 5 %. If the baseline's own median is less certain than
    that, a regression can't be told from noise.
    """
    if len(samples) < FEWEST:
        return f"{len(samples)} samples, and a baseline needs {FEWEST} at least"
    half = median_interval(samples).relative_half_width
    if half > allowed:
        return f"its median is only known to within ±{half:.1%}, and the slowdown allowed is {allowed:.1%}"
    return ""


def regression(
    samples: Sequence[float],
    against: Sequence[float],
    *,
    allowed: float = 0.05,
    paired: bool = False,
    disturbed: bool = False,
) -> Regression:
    """Whether ``samples`` are slower than ``against`` by more than ``allowed``.

    ``disturbed``: either was measured beside other work, which moves whole runs. Then only what is slower by more than
    that in its fastest sample, compared with the slowest of the others, is surely slower.

    Raises SamplesError as :func:`ratio_interval` does.
    """
    ratio = ratio_interval(samples, against, paired=paired)
    slower = ratio.low > 1 + allowed and not (disturbed and min(samples) <= (1 + allowed) * max(against))
    return Regression(ratio, slower, unclear=not slower and ratio.high > 1 + allowed)


def _array(samples: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(samples, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise SamplesError("no samples; measure at least one round")
    return array


def _logarithms(samples: Sequence[float]) -> NDArray[np.float64]:
    array = _array(samples)
    if not (np.isfinite(array) & (array > 0)).all():
        raise SamplesError(f"a time is a positive, finite number of seconds; got {samples}")
    return np.log(array)


def _median(array: NDArray[np.float64], confidence: float) -> Interval:
    ordered, count = np.sort(array), len(array)
    middle = float(ordered[count // 2] + ordered[(count - 1) // 2]) / 2
    bound = _bounds(count, confidence)
    if bound is None:
        return Interval(-math.inf, middle, math.inf)
    k, weight = bound
    low = (1 - weight) * ordered[k] + weight * ordered[k + 1]
    high = (1 - weight) * ordered[-1 - k] + weight * ordered[-2 - k]
    return Interval(float(low), middle, float(high))


def _widened(interval: Interval, rounds: NDArray[np.float64]) -> Interval:
    """For rounds that may hang together by as much as they don't rule out; and by how much they do, if surely.

    The autocorrelation is that of ranks (Bartels, JASA 77, 1982), which far outliers don't hide. Its standard error is
    1 / sqrt(n) where there is none, and "surely" is a test at 5 %.
    """
    count = len(rounds)
    if math.isinf(interval.high) or interval.low == interval.high:
        return interval
    ordered = np.sort(rounds)
    ranks = ordered.searchsorted(rounds) + ordered.searchsorted(rounds, "right")  # equal rounds share theirs
    steps, spread = ranks[1:] - ranks[:-1], ranks - count
    lag = 1 - float(steps @ steps / (spread @ spread)) / 2
    error = 1 / math.sqrt(count)
    allowed = min(max(lag + CAUTION * error, 0.0), 0.99)
    factor = math.sqrt((1 + allowed) / (1 - allowed))
    low, high = (interval.mid + factor * (end - interval.mid) for end in (interval.low, interval.high))
    return Interval(low, interval.mid, high, lag if lag > 1.645 * error else 0.0)


@lru_cache(maxsize=256)
def _bounds(count: int, confidence: float) -> tuple[int, float] | None:
    """Which order statistic from either end bounds the median, and the weight of the next one inwards.

    None if not even the whole range holds the median with that confidence.
    """
    outside = [0]  # of 2^count equally likely cases, those with fewer than k samples below the median: k = 0, 1, ...
    for k in range(count // 2 + 1):
        outside.append(outside[-1] + math.comb(count, k))
    holds = [1 - 2 * cases / 2**count for cases in outside]  # holds[k]: between the k-th smallest and k-th largest
    enough = [k for k in range(1, count // 2 + 1) if holds[k] >= confidence]
    if not enough:
        return None
    k = enough[-1]
    if k + 1 > count // 2:
        return k - 1, 0.0
    share = (holds[k] - confidence) / (holds[k] - holds[k + 1])
    return k - 1, (count - k) * share / (k + (count - 2 * k) * share)


def _difference(one: Interval, other: Interval) -> Interval:
    """MOVER: the interval of one estimate less another that is independent of it."""
    mid = one.mid - other.mid
    return Interval(
        mid - math.hypot(one.mid - one.low, other.high - other.mid),
        mid,
        mid + math.hypot(one.high - one.mid, other.mid - other.low),
    )


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < math.inf else math.inf
