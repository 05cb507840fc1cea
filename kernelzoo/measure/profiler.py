"""A second clock to check the first. It uses the device's timestamps of each kernel, recorded by CUPTI.

It is independent of :class:`kernelzoo.measure.clocks.DeviceClock`, and also times work that a graph did not capture.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from kernelzoo import registry
from kernelzoo.launch import Launch
from kernelzoo.measure.judge.memory import TensorSets
from kernelzoo.measure.problems import Problem
from kernelzoo.torch_private import spin

_LAUNCHES = 512  # most launches in a run: a stream queues 1024 kernels, and then blocks the host
_CYCLES = 2e9  # most clock cycles per second, so that the spinning does not end too soon
_LONGEST = 0.2  # most seconds to spin


def kernel_seconds(launches: Sequence[Launch], device: torch.device, *, repeats: int = 5) -> float | None:
    """Return the device's active seconds per launch, by CUPTI through torch.profiler; None if unknown.

    ``launches``: one for each of several sets of data, so that data is cold. They run ``repeats`` times. Each is queued
    after a spinning kernel, so launches are back to back although the profiler slows the host. Times of kernels,
    fills and copies are added; overlaps count once. Gaps are not included, since CUPTI changes them. The result is the
    median over the runs. It is None if there is no GPU or CUPTI, another profiler is active, or too few runs are
    complete. CUPTI may lose a session's first kernels. It may slow later launches: time nothing here afterwards.
    """
    tools: Any = torch.profiler  # torch has no types for it
    if device.type != "cuda" or tools.ProfilerActivity.CUDA not in tools.supported_activities():
        return None
    count = min(len(launches), _LAUNCHES)
    rotated = itertools.cycle(launches)  # a run begins where the last one ended, so that all sets are used alike
    with torch.cuda.device(device):
        index = torch.cuda.current_device()
        torch.cuda.synchronize()
        started = time.perf_counter()
        for launch in itertools.islice(rotated, count):
            launch()
        submit = time.perf_counter() - started
        torch.cuda.synchronize()
        session = tools.profile(activities=[tools.ProfilerActivity.CUDA], acc_events=True)
        try:
            session.start()
        except RuntimeError:  # another profiler is active
            return None
        try:
            for _ in range(repeats + 1):  # one more for kernels that CUPTI loses
                spin(int(_CYCLES * min(_LONGEST, 4 * submit + 1e-3)))
                for launch in itertools.islice(rotated, count):
                    launch()
                torch.cuda.synchronize()
        finally:
            session.stop()
    return active_seconds_per_launch(_find_activities(session.events(), index), count, repeats)


@dataclass(frozen=True, order=True)
class Activity:
    """One activity of the device: start and end in microseconds."""

    start: float
    end: float
    spins: bool = False
    """Whether it is the spinning kernel that begins a run."""


def active_seconds_per_launch(activities: Iterable[Activity], launches: int, repeats: int) -> float | None:
    """Return the active seconds per launch: the median over complete runs. A spinning kernel begins each run.

    A run is complete if no other run has more activities. None if fewer than half of ``repeats`` runs are complete.
    """
    runs: list[list[Activity]] = []
    for activity in sorted(activities):
        if activity.spins:
            runs.append([])
        elif runs:  # activities before the first spinning kernel belong to an incomplete run
            runs[-1].append(activity)
    fullest = max(map(len, runs), default=0)
    whole = [run for run in runs if len(run) == fullest]
    if fullest < launches or 2 * len(whole) < repeats:
        return None
    return statistics.median(_active_microseconds(run) for run in whole) / launches * 1e-6


def _active_microseconds(run: Sequence[Activity]) -> float:
    """Return the microseconds in which anything is active. The activities of ``run`` are sorted by start."""
    busy, until = 0.0, float("-inf")
    for activity in run:
        busy += max(0.0, activity.end - max(activity.start, until))
        until = max(until, activity.end)
    return busy


def _find_activities(events: Iterable[Any], index: int) -> Iterator[Activity]:
    """Yield a device's kernels, fills and copies from torch.profiler's events. Events without times are left out."""
    for event in events:
        if (
            event.device_type.name == "CUDA"
            and event.device_index == index
            and not event.is_user_annotation
            and event.time_range.end > event.time_range.start
        ):
            yield Activity(event.time_range.start, event.time_range.end, "spin_kernel" in event.name)


def cross_check(
    problem: Problem,
    implementations: Sequence[registry.Implementation],
    device: torch.device,
    *,
    progress: Callable[[str, str], None] = lambda stage, id: None,
) -> dict[str, float]:
    """Return the profiler's seconds per launch on new, cold data, by id. Ids that it can't time are left out.

    The process must time nothing afterwards: the profiler slows it down.
    """
    found = {}
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        generator = torch.Generator(device).manual_seed(random.getrandbits(48))
        count = max(2, min(256, 2**28 // max(1, problem.bytes)))
        sets = TensorSets(problem, count, device)
        for number in range(count):
            for x, drawn in zip(sets[number][0], problem.inputs(generator), strict=True):
                x.copy_(drawn)
        for implementation in implementations:
            progress("cross-check", implementation.id)
            launches = [problem.launch(implementation, *sets[number]) for number in range(count)]
            for launch in launches:
                launch()
            seconds = kernel_seconds(launches, device)
            if seconds is not None:
                found[implementation.id] = seconds
    return found
