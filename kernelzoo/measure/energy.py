"""The energy of a launch, from NVML's energy counter while the timed work runs again without a pause.

The counter covers the whole GPU, and moves in steps of up to a tenth of a second. So a span begins and ends at a step.
A launch's energy is the span's mean power times the launch's seconds.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter, sleep
from typing import Any

from kernelzoo.errors import KernelZooError
from kernelzoo.lazy import torch
from kernelzoo.measure.condition import nvml_of

LEAST = 0.2
"""Least seconds of launches in a span."""

STEPS = 4
"""Fewest steps of the counter in a span. The delay at which a step is seen varies."""

WARM = 0.05
"""Seconds of launches before a span may begin, so that the clock is up."""

STILL = 1.0
"""Seconds of launches in which a counter must move."""

_PAUSE = 0.5e-3  # seconds between readings: a 400th of a span
_AHEAD = 20e-3  # seconds of work queued on the device, so that it stays busy if the host is delayed


class EnergyError(KernelZooError, RuntimeError):
    """This device has no readable energy counter."""


@dataclass(frozen=True)
class Energy:
    """The energy of one launch and the quality of its reading, or why there is none."""

    launch_mj: float = 0.0
    launches: int = 0
    """Launches in the span."""
    span_ms: float = 0.0
    """Length of the span in which it was read."""
    launch_us: float = 0.0
    """A launch's time in that span; heat may make it longer than in a sample."""
    step_ms: float = 0.0
    """Median time between moves of the counter."""
    step_mj: float = 0.0
    """Median energy by which it moves."""
    unknown: str = ""
    """Why the energy is unknown; not in a results file."""

    @property
    def facts(self) -> dict[str, float]:
        """Its numbers by name, as in a results file."""
        return {name: value for name, value in vars(self).items() if name != "unknown"}

    @property
    def watts(self) -> float:
        """Mean power in watts, including idle power."""
        return 1e3 * self.launch_mj / self.launch_us


class Meter:
    """The energy counter of one GPU; :func:`meter` makes it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    def joules(self) -> float:
        """Joules since the driver was loaded. Raises EnergyError."""
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3
        except self._nvml.NVMLError as error:
            raise EnergyError(f"NVML has no energy counter for this GPU: {error}") from error


def meter(device: torch.device) -> Meter:
    """The energy counter of the device. Raises EnergyError, which says what is missing."""
    found: Any = f"it is read from a GPU's counter, and {device.type!r} has none"
    if device.type == "cuda":
        found = nvml_of(device)
    if isinstance(found, str):
        raise EnergyError(f"--energy is not available here: {found}")
    made = Meter(*found)
    made.joules()
    return made


class Replays:
    """Runs of a queue back to back, which take about ``seconds`` each."""

    def __init__(self, queue: Callable[[], None], seconds: float, device: torch.device) -> None:
        self._queue, self._device = queue, device
        self._ahead = max(3, math.ceil(_AHEAD / seconds))
        self._waiting: deque[Any] = deque()
        self._first, self._runs = self._event(), 0

    def more(self) -> None:
        """Queue enough runs to keep the device busy."""
        while len(self._waiting) > 1 and self._waiting[0].query():
            self._waiting.popleft()
        while len(self._waiting) < self._ahead:
            self._queue()
            self._runs += 1
            self._waiting.append(self._event())

    def end(self) -> float:
        """Wait for all runs; returns the mean seconds of one."""
        last = self._waiting[-1]
        last.synchronize()
        return float(self._first.elapsed_time(last)) * 1e-3 / self._runs

    def _event(self) -> Any:
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def of(more: Callable[[], object], end: Callable[[], float], launches: int, meter: Meter) -> Energy:
    """The energy of a launch. ``more`` queues enough runs of so many ``launches``; ``end`` waits for all of them."""
    more()
    began = moved = perf_counter()
    moves: list[tuple[float, float]] = []
    unknown = ""
    try:
        last = meter.joules()
        while not unknown and not (len(moves) > STEPS and moves[-1][0] - moves[0][0] >= LEAST):
            sleep(_PAUSE)
            more()
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
        launch = end() / launches
    if unknown:
        return Energy(unknown=unknown)
    (start, before), (stop, after) = moves[0], moves[-1]
    steps = [(later[0] - at[0], later[1] - at[1]) for at, later in pairwise(moves)]
    return Energy(
        launch_mj=(after - before) / (stop - start) * launch * 1e3,
        launches=round((stop - start) / launch),
        span_ms=(stop - start) * 1e3,
        launch_us=launch * 1e6,
        step_ms=statistics.median(seconds for seconds, _ in steps) * 1e3,
        step_mj=statistics.median(joules for _, joules in steps) * 1e3,
    )
