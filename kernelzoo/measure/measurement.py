"""The result of a race for one implementation on one problem."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any, Literal

from kernelzoo import registry
from kernelzoo.measure.condition import DISTURBED, DeviceCondition
from kernelzoo.measure.energy import Energy
from kernelzoo.measure.problems import Problem

Cache = Literal["cold", "hot"]

OF_CALLS = ("call", "submit")
"""Clocks that time calls instead of kernels. Their bytes per second mean nothing."""

BREAKS = "breaks the contract"
"""The flag of an implementation that is right only on ordinary values, and was timed on request."""

UNDECIDABLE, BUSY, FULL, UNJUDGED = "undecidable", "busy", "out of memory", "unjudged"
"""Kinds of failures. UNDECIDABLE: the operation's reference is wrong. BUSY: other work may have disturbed the times.
FULL: memory ran out; the reason begins with this text. UNJUDGED: the process ended, perhaps not due to this kernel."""

APART, ABOVE = 0.03, 10e-6
"""Two clocks disagree if they differ by more than the fraction APART, on times above ABOVE seconds."""

BETWEEN = 1e-6
"""Seconds between kernels, which only the device clock includes. On an H200: 0.3 to 0.8 us; 1.4 us for two kernels."""


def clocks_disagree(device_seconds: float, cupti_seconds: float) -> bool:
    """Whether two clocks differ by over 3 % on a kernel above 10 us. Gaps between kernels are subtracted first."""
    more = device_seconds - cupti_seconds
    apart = -more if more < 0 else max(0.0, more - BETWEEN)
    return max(device_seconds, cupti_seconds) > ABOVE and apart > APART * device_seconds


@dataclass
class Measurement:
    """The measurement of one implementation on one problem: samples, or why there are none."""

    implementation: registry.Implementation
    problem: Problem
    clock: str
    clock_detail: str
    cache: Cache = "cold"
    race: str = ""
    """The name of the race. Samples of two measurements of one race are paired by round."""
    form: str = ""
    """The id of the form that was bound; for a chooser, the form that the chooser selected."""
    rounds: int = 0
    """Rounds asked for. A race that continues until its verdict is clear may have more samples."""
    samples: list[float] = field(default_factory=list)
    """Seconds per launch, one per round, in the order of the rounds."""
    submit: float | None = None
    """Host seconds to submit one bound launch to a GPU; None on a host, where that is the launch itself."""
    first_call: float | None = None
    """Seconds of the first bind and run, including compilation unless it was cached."""
    cupti: float | None = None
    """Seconds per launch by the profiler's clock; None if it was not asked for, or is unknown."""
    copy: float | None = None
    """Median seconds of a copy of the same data in the same rounds; None unless input and output have equal sizes."""
    limit: float | None = None
    """The shortest possible seconds on this device; None without measured ceilings."""
    energy: Energy | None = None
    """Energy of a launch; None if it was not asked for."""
    same_bits: bool | None = None
    """Whether the same inputs gave the same bits again; None if that was not checked."""
    batch_invariant: bool | None = None
    """Whether a row launched alone has the same bits as among other rows; None if that can't be checked."""
    beside: str = ""
    """A caveat: the judge had to load the kernel's file too."""
    repeated_rounds: int = 0
    """Rounds of the race that were repeated because the device was disturbed."""
    disturbed_rounds: int = 0
    """Rounds that count although the device was disturbed, since it never settled."""
    condition: tuple[DeviceCondition, DeviceCondition] | None = None
    """The device's state before and after the race."""
    refused: str = ""
    """The reason why it refuses this problem or can't run here. This is no error."""
    breaks: str = ""
    """The gate's finding on special values, if the implementation is timed on request although it is wrong there."""
    wrong: str = ""
    """What is wrong with its results or times. A wrong implementation has no samples."""
    failed: str = ""
    """The unexpected error that it raised."""
    details: dict[str, Any] = field(default_factory=dict)
    """The kind of a failure and the first wrong element, if known, as JSON."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def gb_per_s(self) -> float:
        """The bandwidth in units of 1e9 bytes per second, for the bytes that must be moved."""
        return self.bytes / self.median / 1e9

    @property
    def bytes(self) -> int:
        return self.problem.bytes

    @property
    def fraction_of_limit(self) -> float | None:
        """The shortest possible time divided by the median time; None if unknown. A hot cache has no such limit."""
        return None if self.limit is None or self.cache == "hot" else self.limit / self.median

    @property
    def flags(self) -> tuple[str, ...]:
        """The caveats of this time, as text."""
        found = [BREAKS] if self.breaks else []
        if self.clock == "device" and self.submit is not None and self.median < self.submit:
            found.append("host-bound")
        if self.cupti is not None and clocks_disagree(self.median, self.cupti):
            found.append("clocks disagree")
        if self.energy is not None and self.energy.unknown:
            found.append(f"no energy: {self.energy.unknown}")
        if self.beside:
            found.append(self.beside)
        if self.disturbed_rounds:
            found.append(DISTURBED)
        return tuple(found)
