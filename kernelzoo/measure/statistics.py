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


class SamplesError(KernelZooError, ValueError):
    """Samples without a meaning: none at all, a time that is not positive, or numbers of rounds that differ."""


@dataclass(frozen=True)
class Interval:
    """An estimate, and a range that holds the true value with the given confidence."""

    low: float
    mid: float
    high: float

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
    samples: Sequence[float], baseline: Sequence[float], *, paired: bool, confidence: float = 0.95
) -> Interval:
    """The time of ``samples`` over that of ``baseline``: below 1 is faster.

    paired: sample i of both is from round i of one race. The estimate is the median of the rounds' ratios, and its
    interval that of :func:`median_interval`, on logarithms, so that swapping the two inverts it. What slows a whole
    round down cancels, which it does not in the ratio of the two medians. Where the two differ much in the skew of
    their noise, the median ratio is not exactly the ratio of the medians.

    Not paired: two runs, each with samples of its own, and the ratio of their medians. Its interval joins those of the
    two medians (MOVER: Zou and Donner, Statistics in Medicine 27, 2008). What differed between the two runs, the
    temperature or the machine, is no part of it.

    Simulated at 15 rounds, the 95 % interval holds the true ratio in 94 to 96 % of races, and in 97 to 100 % of two
    runs, for normal, skewed and outlying noise and for a common drift; in 80 and 84 % if each has a drift of its own.
    A percentile bootstrap of the ratio of the medians is as good, and 1.4 times as wide under a common drift.

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
    else:
        log = _difference(_median(times, confidence), _median(base, confidence))
    return Interval(_exp(log.low), _exp(log.mid), _exp(log.high))


def verdict(ratio: Interval, *, margin: float = 0.01) -> Verdict:
    """What follows from the ratio of two times: SAME, FASTER, SLOWER or UNCLEAR.

    SAME if the whole interval lies within 1 - margin and 1 + margin, whether or not it holds 1: a difference that
    small is no reason to prefer either. Else FASTER if it lies below 1, SLOWER if it lies above 1. UNCLEAR otherwise:
    more rounds, or a quieter machine, would tell.

    Simulated, a race of a kernel with itself says SAME 98 times in 100 at 15 rounds if a sample's noise is 0.5 %, and
    79 times at 9; always, if it is 0.2 %.
    """
    if 1 - margin <= ratio.low and ratio.high <= 1 + margin:
        return Verdict.SAME
    if ratio.high < 1:
        return Verdict.FASTER
    if ratio.low > 1:
        return Verdict.SLOWER
    return Verdict.UNCLEAR


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
    samples: Sequence[float], against: Sequence[float], *, allowed: float = 0.05, paired: bool = False
) -> Regression:
    """Whether ``samples`` are slower than ``against`` by more than ``allowed``.

    Raises SamplesError as :func:`ratio_interval` does.
    """
    ratio = ratio_interval(samples, against, paired=paired)
    slower = ratio.low > 1 + allowed
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
    ordered, middle = np.sort(array), float(np.median(array))
    bound = _bounds(len(ordered), confidence)
    if bound is None:
        return Interval(-math.inf, middle, math.inf)
    k, weight = bound
    low = (1 - weight) * ordered[k] + weight * ordered[k + 1]
    high = (1 - weight) * ordered[-1 - k] + weight * ordered[-2 - k]
    return Interval(float(low), middle, float(high))


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
