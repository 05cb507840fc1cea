"""A second clock to hold the first against: the device's own timestamps of each kernel, as CUPTI records them.

It shares nothing with :class:`kernelzoo.measure.clocks.DeviceClock` but the launches: no CUDA graph, no events, and no
division of one time by the number of launches. A kernel that a graph did not capture, say, shows here.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch

APART, ABOVE = 0.03, 10e-6
"""Two clocks that differ by more than this share disagree, on what takes longer than so many seconds."""

BETWEEN = 1e-6
"""Seconds from one kernel to the next that the device clock counts and CUPTI's busy time leaves out: 0.3 to 0.8 us were
seen on an H200 for launches of one kernel, 1.4 for two."""

_LAUNCHES = 512  # in one run, at most: a stream queues 1024 kernels, and then makes the host wait
_CYCLES = 2e9  # of the device's clock in a second, at most: what it spins must not end too soon
_LONGEST = 0.2  # seconds to spin, at most


def kernel_seconds(launches: Sequence[Launch], device: torch.device, *, repeats: int = 5) -> float | None:
    """Seconds of device activity in one launch, as CUPTI tells it through torch.profiler; None where it does not.

    launches: one for each of the rotated sets, so that the data is as cold as for the device clock. They run
    ``repeats`` times through, each time queued up behind a spinning kernel, so that they run back to back however slow
    the host is under the profiler.

    What is added up are the kernels, fills and copies of the launches, where two overlap once; the result is the
    median over the runs. What lies between two kernels is left out, since in a stream that CUPTI watches it is not what
    it is between two nodes of a graph. So the device clock should tell this time and, for each kernel, what the device
    takes from one node to the next: little beside the kernels that :func:`disagree` judges.

    None without a GPU, without CUPTI, while another profiler has it, and where too few runs were recorded whole: CUPTI
    loses the first kernels of a session at times. CUPTI may stay in the process, and slow its later launches: time
    nothing there afterwards.
    """
    import torch

    from kernelzoo.torch_private import spin

    tools: Any = torch.profiler  # torch does not type it
    if device.type != "cuda" or tools.ProfilerActivity.CUDA not in tools.supported_activities():
        return None
    count = min(len(launches), _LAUNCHES)
    rotated = itertools.cycle(launches)  # a run begins where the last one ended, or some sets would be met too often
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
        except RuntimeError:  # another profiler is at work
            return None
        try:
            for _ in range(repeats + 1):  # one more, for those that CUPTI loses
                spin(int(_CYCLES * min(_LONGEST, 4 * submit + 1e-3)))
                for launch in itertools.islice(rotated, count):
                    launch()
                torch.cuda.synchronize()
        finally:
            session.stop()
    return per_launch(_activities(session.events(), index), count, repeats)


def disagree(device_seconds: float, cupti_seconds: float) -> bool:
    """Whether the two clocks tell times that differ by more than 3 %, on a kernel above 10 us.

    The device clock may tell a microsecond more, which lies between two kernels and is no part of CUPTI's.
    """
    more = device_seconds - cupti_seconds
    apart = -more if more < 0 else max(0.0, more - BETWEEN)
    return max(device_seconds, cupti_seconds) > ABOVE and apart > APART * device_seconds


@dataclass(frozen=True, order=True)
class Activity:
    """What the device did from one time to another, in microseconds."""

    start: float
    end: float
    spins: bool = False
    """Whether it is the spinning kernel, with which a run begins."""


def per_launch(activities: Iterable[Activity], launches: int, repeats: int) -> float | None:
    """Seconds of activity in one launch: the median over the runs that were recorded whole.

    Each run begins with a spinning kernel and is of so many launches. None if fewer than half of the ``repeats`` runs
    are whole: all those count as whole that hold as many activities as the fullest, and one for each launch at least.
    """
    runs: list[list[Activity]] = []
    for activity in sorted(activities):
        if activity.spins:
            runs.append([])
        elif runs:  # what comes before the first spinning kernel is the rest of a run whose beginning is lost
            runs[-1].append(activity)
    fullest = max(map(len, runs), default=0)
    whole = [run for run in runs if len(run) == fullest]
    if fullest < launches or 2 * len(whole) < repeats:
        return None
    return statistics.median(_busy(run) for run in whole) / launches * 1e-6


def _busy(run: Sequence[Activity]) -> float:
    """Microseconds in which something ran; activities come sorted by their start."""
    busy, until = 0.0, float("-inf")
    for activity in run:
        busy += max(0.0, activity.end - max(activity.start, until))
        until = max(until, activity.end)
    return busy


def _activities(events: Iterable[Any], index: int) -> Iterator[Activity]:
    """Of torch.profiler's events, the device's own: kernels, fills and copies on the device of that index.

    A kernel of no duration is one whose times CUPTI lost.
    """
    for event in events:
        if (
            event.device_type.name == "CUDA"
            and event.device_index == index
            and not event.is_user_annotation
            and event.time_range.end > event.time_range.start
        ):
            yield Activity(event.time_range.start, event.time_range.end, "spin_kernel" in event.name)
