"""What a race tells of one implementation on one problem."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

from kernelzoo import registry
from kernelzoo.measure import profiler
from kernelzoo.measure.condition import DISTURBED, Condition
from kernelzoo.measure.energy import Energy
from kernelzoo.measure.problems import Problem

Cache = Literal["cold", "hot"]

BREAKS = "breaks the contract"
"""The flag of an implementation that is right on ordinary values alone, and was timed on request."""


@dataclass
class Measurement:
    """One implementation on one problem: samples, or the reason why there are none."""

    implementation: registry.Implementation
    problem: Problem
    clock: str
    clock_detail: str
    cache: Cache = "cold"
    race: str = ""
    """Names the race: the samples of two measurements of one race are paired, round by round."""
    form: str = ""
    """The id of the form that was bound; of a chooser, the form that it chose."""
    rounds: int = 0
    """Those that were asked for; of a race that goes on until it tells something there may be more samples."""
    samples: list[float] = field(default_factory=list)
    """Seconds per launch, one per round, in the order of the rounds."""
    submit: float | None = None
    """Seconds of the host's time to submit one bound launch; None on the host, where the launch is that time."""
    first_call: float | None = None
    """Seconds to bind and to run the first time, with compilation unless a cache had the kernel."""
    cupti: float | None = None
    """Seconds per launch by a second clock, the profiler's; None if it was not asked or can't tell."""
    copy: float | None = None
    """Seconds that a plain copy of the same input to the same output took in the same rounds (median); None where the
    operation writes less than it reads."""
    limit: float | None = None
    """Seconds that the best possible implementation takes on this device; None where no ceiling was measured."""
    energy: Energy | None = None
    """Of a launch; None if it was not asked."""
    repeated_rounds: int = 0
    """Rounds of the race that were measured again, because the device was disturbed."""
    disturbed_rounds: int = 0
    """Rounds that count although the device was disturbed: it never came to rest."""
    condition: tuple[Condition, Condition] | None = None
    """The device's state before the race and after."""
    refused: str = ""
    """Why it can't take this problem or can't run here, which is no fault."""
    breaks: str = ""
    """What the gate found, if the implementation is timed on request: it is right on ordinary values and breaks the
    contract on special ones."""
    wrong: str = ""
    """What the gate found. A wrong implementation is not timed; if it is wrong after timing, it has no result."""
    failed: str = ""
    """The unexpected error that was raised."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def gb_per_s(self) -> float:
        """Bytes that must be moved, per second, in units of 1e9."""
        return self.bytes / self.median / 1e9

    @property
    def bytes(self) -> int:
        return self.problem.bytes

    @property
    def of_limit(self) -> float | None:
        """Share of the limit reached; None where there is no limit, or the cache is hot, which knows no such limit."""
        return None if self.limit is None or self.cache == "hot" else self.limit / self.median

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader of this time must know: the implementation breaks the contract; the host submits launches more
        slowly than the device runs them; two clocks disagree; the device was disturbed in every round."""
        found = [BREAKS] if self.breaks else []
        if self.clock == "device" and self.submit is not None and self.median < self.submit:
            found.append("host-bound")
        if self.cupti is not None and profiler.disagree(self.median, self.cupti):
            found.append("clocks disagree")
        if self.energy is not None and self.energy.unknown:
            found.append(f"no energy: {self.energy.unknown}")
        if self.disturbed_rounds:
            found.append(DISTURBED)
        return tuple(found)
