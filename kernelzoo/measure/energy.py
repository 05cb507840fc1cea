"""The energy of a launch: NVML's energy counter, read while what was timed runs again without a pause.

The counter is that of the whole GPU, idle power and other processes included: nothing is subtracted. It moves in steps,
some of them as long as a tenth of a second. So a span begins and ends where the counter was seen to move, and holds
several steps; what a launch takes is the mean power of the span times the seconds of a launch.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Protocol

from kernelzoo.errors import KernelZooError
from kernelzoo.measure.condition import nvml_of

if TYPE_CHECKING:
    import torch

LEAST = 0.2
"""Seconds of launches in a span, at least."""

STEPS = 4
"""Steps of the counter in a span, at least: how late each is seen varies, which counts once in so many."""

WARM = 0.05
"""Seconds of launches before a span may begin: a clock rises, and what the counter then tells is of work."""

STILL = 1.0
"""Seconds of launches in which a counter must move."""

_PAUSE = 0.5e-3  # seconds between two readings: a 400th of a span, and time that NVML leaves to others
_AHEAD = 20e-3  # seconds of work that wait on the device, so that a host that is held up does not let it idle


class EnergyError(KernelZooError, RuntimeError):
    """This device has no energy counter that can be read."""


@dataclass(frozen=True)
class Energy:
    """Of one launch, and how well the counter told it; or why it did not."""

    joules: float = 0.0
    """A launch's."""
    launches: int = 0
    """In the span."""
    span: float = 0.0
    """Seconds."""
    launch: float = 0.0
    """Seconds of a launch in this run, which heat may make longer than a sample's."""
    step: float = 0.0
    """Seconds from one move of the counter to the next (median)."""
    step_joules: float = 0.0
    """By which it moves (median)."""
    unknown: str = ""
    """Why it is not known."""


class Meter:
    """The energy counter of one GPU; :func:`meter` makes it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    def joules(self) -> float:
        """Since the driver was loaded. Raises EnergyError."""
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3
        except self._nvml.NVMLError as error:
            raise EnergyError(f"NVML has no energy counter for this GPU: {error}") from error


def meter(device: torch.device) -> Meter:
    """The counter of the device's energy. Raises EnergyError, which says what is missing."""
    if device.type != "cuda":
        raise EnergyError(f"the energy of a launch is read from a GPU's counter, and {device.type!r} has none")
    found = nvml_of(device)
    if isinstance(found, str):
        raise EnergyError(found)
    made = Meter(*found)
    made.joules()
    return made


class Work(Protocol):
    """What keeps a device at work."""

    def more(self) -> None:
        """See that enough waits to be done; returns at once."""

    def end(self) -> float:
        """Wait for all of it; the seconds that one run took, on average."""


class Replays:
    """Runs of a queue, one right after the other; ``seconds`` is what one takes, about."""

    def __init__(self, queue: Callable[[], None], seconds: float, device: torch.device) -> None:
        self._queue, self._device = queue, device
        self._ahead = max(3, math.ceil(_AHEAD / seconds))
        self._waiting: deque[Any] = deque()
        self._first, self._runs = self._event(), 0

    def more(self) -> None:
        while len(self._waiting) > 1 and self._waiting[0].query():
            self._waiting.popleft()
        while len(self._waiting) < self._ahead:
            self._queue()
            self._runs += 1
            self._waiting.append(self._event())

    def end(self) -> float:
        last = self._waiting[-1]
        last.synchronize()
        return float(self._first.elapsed_time(last)) * 1e-3 / self._runs

    def _event(self) -> Any:
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def of(work: Work, launches: int, meter: Meter) -> Energy:
    """The energy of a launch, of which each run of the ``work`` holds so many."""
    work.more()
    began = moved = perf_counter()
    moves: list[tuple[float, float]] = []
    unknown = ""
    try:
        last = meter.joules()
        while not unknown and not (len(moves) > STEPS and moves[-1][0] - moves[0][0] >= LEAST):
            sleep(_PAUSE)
            work.more()
            joules, now = meter.joules(), perf_counter()
            if joules < last:
                unknown = "the counter went back"
            elif joules > last:
                last, moved = joules, now
                moves += [(now, joules)] if now - began >= WARM else []
            elif now - moved > STILL:
                unknown = f"the counter did not move in {STILL:g} s"
    except EnergyError as error:
        unknown = str(error)
    finally:
        launch = work.end() / launches
    if unknown:
        return Energy(unknown=unknown)
    (start, before), (end, after) = moves[0], moves[-1]
    steps = [(later[0] - at[0], later[1] - at[1]) for at, later in pairwise(moves)]
    return Energy(
        joules=(after - before) / (end - start) * launch,
        launches=round((end - start) / launch),
        span=end - start,
        launch=launch,
        step=statistics.median(seconds for seconds, _ in steps),
        step_joules=statistics.median(joules for _, joules in steps),
    )
