"""The energy of a launch, from NVML's energy counter while the timed turns run again back to back.

The counter covers the whole GPU. It moves in steps of up to 0.1 s, so the measured span begins and ends at a step.
A launch's energy is the span's mean power times the launch's seconds.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter, sleep
from typing import Any

from kernelzoo.errors import KernelZooError
from kernelzoo.lazy import torch
from kernelzoo.measure.condition import find_nvml

STILL = 1.0
"""The counter must move within this many seconds of launches."""

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
    """Length of the span."""
    launch_us: float = 0.0
    """A launch's time in the span; heat may make it longer than in a sample."""
    step_ms: float = 0.0
    """Median time between moves of the counter."""
    step_mj: float = 0.0
    """Median energy by which the counter moves."""
    unknown: str = ""
    """The reason why the energy is unknown. It is not written to a results file."""

    @property
    def as_numbers(self) -> dict[str, float]:
        """The energy's numbers by name, rounded to five digits, as in a results file."""
        known = {name: value for name, value in vars(self).items() if name != "unknown"}
        return {name: value if isinstance(value, int) else float(f"{value:.5g}") for name, value in known.items()}

    @property
    def watts(self) -> float:
        """Mean power in watts, including idle power."""
        return 1e3 * self.launch_mj / self.launch_us


def read_joules(nvml: Any, handle: Any) -> float:
    """Return the value of a GPU's energy counter: joules since the driver was loaded. Raises EnergyError."""
    try:
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
    except nvml.NVMLError as error:
        raise EnergyError(f"NVML has no energy counter for this GPU: {error}") from error


def make_energy_meter(device: torch.device) -> Callable[[], float]:
    """Return a function that reads the device's energy counter. Raises EnergyError if anything is missing."""
    found: Any = f"it is read from a GPU's counter, and {device.type!r} has none"
    if device.type == "cuda":
        found = find_nvml(device)
    if isinstance(found, str):
        raise EnergyError(f"--energy is not available here: {found}")
    read_joules(*found)
    return partial(read_joules, *found)


class RepeatedRuns:
    """A queue of repeated runs of the same launches. ``queue`` adds one run, which takes about ``seconds``."""

    def __init__(self, queue: Callable[[], None], seconds: float, device: torch.device) -> None:
        self._queue, self._device = queue, device
        self._ahead = max(3, math.ceil(_AHEAD / seconds))
        self._waiting: deque[Any] = deque()
        self._first, self._runs = self._event(), 0

    def queue_runs(self) -> None:
        """Queue more runs, enough to keep the device busy."""
        while len(self._waiting) > 1 and self._waiting[0].query():
            self._waiting.popleft()
        while len(self._waiting) < self._ahead:
            self._queue()
            self._runs += 1
            self._waiting.append(self._event())

    def wait_for_runs(self) -> float:
        """Wait for all runs. Returns the mean seconds per run."""
        last = self._waiting[-1]
        last.synchronize()
        return float(self._first.elapsed_time(last)) * 1e-3 / self._runs

    def _event(self) -> Any:
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def measure_launch_energy(
    queue_runs: Callable[[], object], wait_for_runs: Callable[[], float], launches: int, meter: Callable[[], float]
) -> Energy:
    """Measure a launch's energy over runs of ``launches`` each. ``wait_for_runs`` returns the mean seconds of a run."""
    queue_runs()
    began = moved = perf_counter()
    moves: list[tuple[float, float]] = []
    unknown = ""
    try:
        last = meter()
        # A span has at least 0.2 s of launches, and four steps, since the delay until a step is seen varies.
        while not unknown and not (len(moves) > 4 and moves[-1][0] - moves[0][0] >= 0.2):
            sleep(_PAUSE)
            queue_runs()
            counted, now = meter(), perf_counter()
            if counted < last:
                unknown = "the counter went back"
            elif counted > last:
                last, moved = counted, now
                moves += [(now, counted)] if now - began >= 0.05 else []  # the GPU's clock has risen by then
            elif now - moved > STILL:
                unknown = f"the counter did not move in {STILL:g} s"
    except EnergyError as error:
        unknown = str(error)
    finally:
        launch = wait_for_runs() / launches
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
        step_mj=statistics.median(energy for _, energy in steps) * 1e3,
    )
