"""How often verdicts are right, by simulation: ``python bench/verdicts.py [--insert docs/records/statistics.md]``.

Races of a kernel with itself, whose rounds are more or less autocorrelated, through the functions that judge real ones:
rounds are added as :func:`kernelzoo.measure.race` adds them. The seed is fixed, so that the table is always the same.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelzoo.files import write_atomically
from kernelzoo.measure.statistics import LONGEST, Verdict, can_stop_race, ratio_interval, verdict
from kernelzoo.report import writing
from kernelzoo.report.table import Cell, Table

ROUNDS = 15
CORRELATIONS = (0.0, 0.5, 0.9)
NOISES = (0.2, 0.5, 1.0, 2.0, 10.0)
"""The standard deviation of a round's ratio, in percent."""


@dataclass(frozen=True)
class Share:
    """Of simulated races, in percent."""

    holds: float
    """Of those whose interval holds the true ratio."""
    said: Counter[Verdict]
    rounds: float
    """The mean number."""

    @property
    def false(self) -> float:
        return self.said[Verdict.FASTER] + self.said[Verdict.SLOWER]


def hanging_together(rng: np.random.Generator, races: int, rounds: int, correlation: float) -> NDArray[np.float64]:
    """Normal noise of size 1, correlated with that of the round before."""
    noise = rng.standard_normal((races, rounds))
    for i in range(1, rounds):
        noise[:, i] = correlation * noise[:, i - 1] + math.sqrt(1 - correlation**2) * noise[:, i]
    return noise


def simulated(noise: NDArray[np.float64], percent: float, *, ratio: float = 1.0) -> Share:
    """Judge races of that true ratio, one a row of ``noise``, which has rounds enough for the longest."""
    held, said, taken = 0, Counter[Verdict](), 0
    for row in ratio * np.exp(percent / 100 * noise):
        count = ROUNDS
        while count < LONGEST * ROUNDS and not can_stop_race([np.ones(count), row[:count]]):
            count *= 2
        found = ratio_interval(row[:count], np.ones(count), paired=True)
        held += found.low <= ratio <= found.high
        said[verdict(found)] += 1
        taken += count
    races = len(noise)
    return Share(100 * held / races, Counter({v: 100 * n / races for v, n in said.items()}), taken / races)


def table(races: int) -> Table:
    lines = []
    for correlation in CORRELATIONS:
        noise = hanging_together(np.random.default_rng(19), races, LONGEST * ROUNDS, correlation)
        for percent in NOISES:
            found = simulated(noise, percent)
            figures = (found.holds, found.said[Verdict.SAME], found.false, found.said[Verdict.UNCLEAR], found.rounds)
            lines.append([Cell(f"{correlation:g}"), Cell(f"{percent:g} %"), *(Cell(f"{f:.1f}") for f in figures)])
    headers = ["correlation", "noise", "interval holds", "same", "faster or slower", "unclear", "rounds"]
    return Table(headers, lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python bench/verdicts.py", description="Simulate races, and judge them.")
    parser.add_argument("--races", type=int, default=3000, help="of each line (default: %(default)s)")
    parser.add_argument("--insert", type=Path, metavar="FILE.md", help="put the table into this document")
    options = parser.parse_args(argv)
    made = table(options.races).markdown()
    if options.insert is None:
        print(made)
    else:
        text, _ = writing.insert(options.insert.read_text("utf-8"), {"verdicts": made}, str(options.insert))
        write_atomically(options.insert, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
