"""The second clock's arithmetic, on events that were made up: no profiler runs here.

That CUPTI and the device clock agree is for a GPU to show: see docs/measuring.md.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch.autograd.profiler_util import FunctionEvent

from kernelzoo.measure import profiler
from kernelzoo.measure.measurement import clocks_disagree
from kernelzoo.measure.profiler import Activity, active_seconds_per_launch, kernel_seconds

DeviceType = torch.autograd.DeviceType
SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def run(start: float, *durations: float, gap: float = 1.0) -> Iterator[Activity]:
    """A spinning kernel, then kernels of these microseconds with gaps between them."""
    yield Activity(start, start + 100, spins=True)
    now = start + 100
    for duration in durations:
        now += gap
        yield Activity(now, now + duration)
        now += duration


def runs(*each: Sequence[float], gap: float = 1.0) -> list[Activity]:
    return [a for i, durations in enumerate(each) for a in run(i * 10_000, *durations, gap=gap)]


WHOLE = runs([50, 50], [20, 22], [20, 22], [20, 22])
SPUN = Activity(0, 10, spins=True)


@pytest.mark.parametrize(
    ("activities", "count", "microseconds"),
    [
        (runs([20, 22], [20, 22], [20, 22]), 2, 21),
        (runs([20, 22], [20, 22], [20, 22], gap=500.0), 2, 21),  # gaps don't count
        (runs(*[[2, 20, 2, 22]] * 4), 2, 23),  # two launches of a fill and a kernel each
        (runs([20], [90], [21], [22], [23]), 1, 22),  # the median run
        ([SPUN, Activity(10, 20), Activity(12, 14), Activity(15, 30), Activity(40, 50)], 1, 30),  # an overlap, once
        (runs([20, 22], [24, 26], [28, 30])[::-1], 2, 25),  # in any order
        # Of a session CUPTI may lose the first kernels: within a run, or with the spinning kernel that it began with.
        (WHOLE, 2, 21),
        (WHOLE[1:], 2, 21),
        (WHOLE[2:], 2, 21),
        ([*WHOLE[:4], *WHOLE[5:]], 2, 21),
    ],
)
def test_the_time_of_a_launch(activities: list[Activity], count: int, microseconds: float) -> None:
    assert active_seconds_per_launch(activities, count, 2) == pytest.approx(microseconds * 1e-6)


@pytest.mark.parametrize(
    "activities",
    [
        [],
        [Activity(0, 100, spins=True)],
        runs([20], [20], [20]),  # one activity for two launches: something was lost, in each
        runs([20, 20], [20], [20], [20]),  # one whole run of three
        [Activity(0, 10), Activity(20, 30)],  # no spinning kernel to begin with
    ],
)
def test_too_little_is_no_time(activities: list[Activity]) -> None:
    assert active_seconds_per_launch(activities, 2, 3) is None


@pytest.mark.parametrize(
    ("device", "cupti", "expected"),
    [
        (100e-6, 100e-6, False),
        (100e-6, 102.9e-6, False),
        (100e-6, 97.1e-6, False),
        (100e-6, 103.1e-6, True),
        (100e-6, 96.1e-6, False),  # a microsecond lies between two kernels
        (100e-6, 95.9e-6, True),
        (9e-6, 5e-6, False),  # too short to judge
        (5e-6, 20e-6, True),  # a graph that did not capture the whole launch
        (20e-6, 5e-6, True),
    ],
)
def test_clocks_disagree(device: float, cupti: float, expected: bool) -> None:
    assert clocks_disagree(device, cupti) is expected


def event(name: str, start: float, end: float, **other: object) -> FunctionEvent:
    facts = {"device_type": DeviceType.CUDA, "device_index": 0, "thread": 7, **other}
    return FunctionEvent(id=1, name=name, start_us=start, end_us=end, **facts)


def test_only_what_the_device_did_is_taken_of_the_events() -> None:
    events = [
        event(SPIN, 0.0, 10.5),
        event("void softmax<float>(float const*)", 12.0, 14.25),
        event("Memset (Device)", 15.0, 16.0),
        event("cudaLaunchKernel", 1.0, 3.0, device_type=DeviceType.CPU),
        event("elsewhere", 17.0, 18.0, device_index=1),
        event("a range of the user's", 0.0, 99.0, is_user_annotation=True),
        event("lost its times", 0.0, 0.0),
    ]
    assert list(profiler._find_activities(events, 0)) == [
        Activity(0.0, 10.5, spins=True),
        Activity(12.0, 14.25),
        Activity(15.0, 16.0),
    ]


class Session:
    """torch.profiler.profile and a device of one stream: a kernel begins when it is queued and the last one is done."""

    def __init__(self) -> None:
        self.now, self.recording = 0.0, False
        self.recorded: list[FunctionEvent] = []
        self.order: list[str] = []

    def work(self, name: str, duration: float) -> None:
        if self.recording:
            self.recorded.append(event(name, self.now, self.now + duration))
            self.order.append(name)
        self.now += duration + 1.5

    def __call__(self, activities: Sequence[object], acc_events: bool) -> "Session":
        assert list(activities) == [torch.profiler.ProfilerActivity.CUDA]
        return self

    def start(self) -> None:
        self.recording = True

    def stop(self) -> None:
        self.recording = False

    def events(self) -> list[FunctionEvent]:
        assert not self.recording
        return self.recorded


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr(torch.profiler, "profile", made)
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: {torch.profiler.ProfilerActivity.CUDA})
    monkeypatch.setattr(profiler, "spin", lambda cycles: made.work(SPIN, cycles / 2e3))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    return made


CUDA = torch.device("cuda", 0)


def launches(session: Session, count: int) -> list[Callable[[], None]]:
    def make(i: int) -> Callable[[], None]:
        return lambda: session.work(f"kernel {i}", 20.0 + i % 3)

    return [make(i) for i in range(count)]


def test_every_launch_is_recorded_in_turn_behind_a_spinning_kernel(session: Session) -> None:
    assert kernel_seconds(launches(session, 3), CUDA, repeats=2) == pytest.approx(21e-6)
    assert session.order == [SPIN, "kernel 0", "kernel 1", "kernel 2"] * 3
    assert not session.recording


def test_a_run_of_many_sets_goes_on_where_the_last_one_ended(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_LAUNCHES", 2)
    assert kernel_seconds(launches(session, 5), CUDA, repeats=1) is not None
    assert [name for name in session.order if name != SPIN] == [f"kernel {i}" for i in (2, 3, 4, 0)]


def test_a_kernel_that_fails_ends_the_session(session: Session) -> None:
    def fails() -> None:
        if session.recording:
            raise RuntimeError("illegal memory access")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        kernel_seconds([fails], CUDA)
    assert not session.recording


def test_no_time_while_another_profiler_is_at_work(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("Profiler is already enabled on this thread")

    monkeypatch.setattr(session, "start", refuse)
    assert kernel_seconds(launches(session, 3), CUDA) is None


def test_no_time_without_a_gpu_or_cupti(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_seconds(launches(session, 3), torch.device("cpu")) is None
    monkeypatch.setattr(torch.profiler, "supported_activities", set)
    assert kernel_seconds(launches(session, 3), CUDA) is None


def test_torchs_events_bear_what_is_read_of_them() -> None:
    """The names that this torch gives them; made up above, here from a session of its own, on the host."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as traced:
        torch.softmax(torch.randn(4, 4), 1)
    first = traced.events()[0]
    assert first.device_type.name == "CPU"
    assert isinstance(first.device_index, int)
    assert first.is_user_annotation is False
    assert first.time_range.end > first.time_range.start
    assert list(profiler._find_activities(traced.events(), 0)) == []
