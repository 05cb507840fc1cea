"""The energy of a launch, by a pretended counter: in coarse steps, standing still, going back, or not there."""

# ruff: noqa: N802 - the fake bears NVML's own names

import math
import sys
import types
from collections.abc import Callable

import pytest
import torch

from kernelzoo import measure, registry
from kernelzoo.measure import energy, record
from kernelzoo.measure.energy import Energy, EnergyError, read_joules

WATTS, LAUNCH, LAUNCHES = 500.0, 20e-6, 211
PROBLEM = measure.Problem("softmax", (64, 96), "float32", -1)


class NVMLError(Exception):
    pass


class Machine:
    """A GPU that takes so many watts at work, its counter, which moves every ``step`` seconds, and the time there."""

    NVMLError = NVMLError
    until = math.inf
    """When the counter stands still from then on."""

    def __init__(self, step: float = 0.1, *, reading: float = 30e-6) -> None:
        self.now, self.step, self.reading = 100.03, step, reading
        self.asked = self.ended = 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def queue_runs(self) -> None:
        self.asked += 1

    def wait_for_runs(self) -> float:
        self.ended += 1
        return LAUNCHES * LAUNCH

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:
        self.now += self.reading
        told = math.floor(min(self.now, self.until) / self.step) * self.step
        return round(WATTS * 1e3 * told)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine], Energy]:
    """The energy of a launch on a machine."""

    def of(machine: Machine) -> Energy:
        for name in ("perf_counter", "sleep"):
            monkeypatch.setattr(energy, name, getattr(machine, name))
        return energy.measure_launch_energy(
            machine.queue_runs, machine.wait_for_runs, LAUNCHES, lambda: read_joules(machine, None)
        )

    return of


@pytest.mark.parametrize("step", [0.1, 0.02, 0.3])
def test_coarse_steps_tell_the_energy_of_a_launch_all_the_same(told: Callable[[Machine], Energy], step: float) -> None:
    machine = Machine(step)
    found = told(machine)
    assert found.launch_mj == pytest.approx(1e3 * WATTS * LAUNCH, rel=0.01)
    assert found.span_ms >= 1e3 * max(0.2, 4 * step * 0.98)
    assert found.launches == pytest.approx(found.span_ms / 1e3 / LAUNCH, rel=1e-3)
    assert found.step_ms == pytest.approx(1e3 * step, rel=0.05)
    assert found.step_mj == pytest.approx(1e3 * WATTS * step, rel=0.05)
    assert found.launch_us == pytest.approx(1e6 * LAUNCH) and found.unknown == ""
    assert machine.asked > 100 and machine.ended == 1  # the device was kept at work


@pytest.mark.parametrize("step", [0.1, 0.001])
def test_a_span_begins_after_the_device_is_warm_and_where_the_counter_moves(
    told: Callable[[Machine], Energy], step: float
) -> None:
    """A tenth is taken in the first 40 ms: a step, or a span, that is in part of them would tell too little."""

    class Resting(Machine):
        def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:
            self.now += self.reading
            told = math.floor(self.now / self.step) * self.step
            return round(WATTS * 1e3 * (0.1 * told if told < 100.07 else told - 0.9 * 100.07))

    assert told(Resting(step)).launch_mj == pytest.approx(1e3 * WATTS * LAUNCH, rel=0.01)


class Still(Machine):
    until = 100.25


class Reloaded(Machine):
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:
        return super().nvmlDeviceGetTotalEnergyConsumption(handle) - (49_000_000 if self.now >= 100.25 else 0)


class Lost(Machine):
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:
        if self.now > 100.25:
            raise NVMLError("GPU is lost")
        return super().nvmlDeviceGetTotalEnergyConsumption(handle)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Still, "the counter did not move in 1 s"),
        (Reloaded, "the counter went back"),
        (Lost, "NVML has no energy counter for this GPU: GPU is lost"),
    ],
)
def test_a_counter_that_fails_is_said_and_no_number(
    kind: type[Machine], words: str, told: Callable[[Machine], Energy]
) -> None:
    machine = kind()
    assert told(machine) == Energy(unknown=words) and machine.ended == 1
    assert machine.now < 100.25 + 1.2


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnergyError, match="'cpu' has none"):
        energy.make_energy_meter(torch.device("cpu"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(EnergyError, match="pip install nvidia-ml-py"):
        energy.make_energy_meter(torch.device("cuda"))


def test_a_gpu_without_the_counter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(handle: str) -> int:
        assert handle == "GPU-8f6a"
        raise NVMLError("Not Supported")

    old = {"nvmlInit": lambda: None, "nvmlDeviceGetHandleByUUID": str, "nvmlDeviceGetTotalEnergyConsumption": refuses}
    monkeypatch.setitem(sys.modules, "pynvml", types.SimpleNamespace(NVMLError=NVMLError, **old))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(uuid="8f6a"))
    with pytest.raises(EnergyError, match="no energy counter for this GPU: Not Supported"):
        energy.make_energy_meter(torch.device("cuda"))


def test_real_nvml_has_the_counter() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert callable(pynvml.nvmlDeviceGetTotalEnergyConsumption)


class Event:
    """An event of a stream on which each run is done when the next but one is queued."""

    queued = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: object) -> None:
        self.at, Event.queued = Event.queued, Event.queued + 1

    def query(self) -> bool:
        return self.at + 2 < Event.queued

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: "Event") -> float:
        return 4.0 * (other.at - self.at)  # ms


@pytest.mark.parametrize(("seconds", "ahead"), [(4e-3, 5), (1.0, 3)])
def test_the_device_has_work_ahead_and_its_time_is_that_of_all_runs(
    seconds: float, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Event, "queued", 0)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    runs: list[int] = []
    replays = energy.RepeatedRuns(lambda: runs.append(1), seconds, torch.device("cuda"))
    replays.queue_runs()
    assert len(runs) == ahead
    for _ in range(10):
        replays.queue_runs()
    assert len(runs) > ahead + 5
    assert replays.wait_for_runs() == pytest.approx(4e-3)


@pytest.fixture
def on_machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine], list[str]]:
    """Races on the host take the energy of this machine; hands back what was done, as it is done."""

    def on(machine: Machine) -> list[str]:
        steps: list[str] = []
        monkeypatch.setattr(energy, "make_energy_meter", lambda device: lambda: read_joules(machine, None))
        for name in ("perf_counter", "sleep"):
            monkeypatch.setattr(energy, name, getattr(machine, name))

        def queue_turns(runner: measure.LocalRunner, id: str, seconds: float) -> None:
            assert 0 < seconds < 1
            if "queued" not in steps[-1:]:
                steps.append("queued")

        monkeypatch.setattr(measure.LocalRunner, "queue_turns", queue_turns)
        monkeypatch.setattr(measure.LocalRunner, "wait_for_turns", lambda runner, id: LAUNCH * runner._lanes[id].count)
        prepare_turn = measure.LocalRunner.prepare_turn

        def noting(runner: measure.LocalRunner, id: str, order: list[int], input_copy: tuple[int, ...] = ()) -> None:
            runner._lanes[id].count = len(order)
            prepare_turn(runner, id, order, input_copy)

        monkeypatch.setattr(measure.LocalRunner, "prepare_turn", noting)
        return steps

    return on


def test_a_race_measures_the_energy_of_what_it_timed_before_that_is_checked_again(on_machine) -> None:
    steps = on_machine(Machine())
    ids = ("torch/softmax/eager", "torch/softmax/naive")
    found = measure.race(
        PROBLEM,
        [registry.implementation(id) for id in ids],
        torch.device("cpu"),
        rounds=6,
        energy=True,
        progress=lambda stage, id: steps.append(f"{stage} {id.rpartition('/')[2]}"),
    )
    assert [step.partition(" ")[0] for step in steps[-6:]] == ["energy", "queued", "check"] * 2
    for id in ids:
        made = record.make_benchmark_entry(found[id], "cpu", None, "custom")["extra_info"]["energy"]
        assert set(made) == {"launch_mj", "launches", "span_ms", "launch_us", "step_ms", "step_mj"}
        assert made["step_ms"] == pytest.approx(100, rel=0.05) and made["step_mj"] == pytest.approx(5e4, rel=0.05)
        watts = made["launch_mj"] / made["launch_us"] * 1e3
        assert watts == pytest.approx(WATTS, rel=0.01)
        assert not any("energy" in flag for flag in found[id].flags)


def test_a_row_without_its_energy_is_a_row_that_says_so(on_machine) -> None:
    machine = Machine()
    machine.until = 0.0
    on_machine(machine)
    id = "torch/softmax/eager"
    (made,) = measure.race(PROBLEM, [registry.implementation(id)], torch.device("cpu"), rounds=3, energy=True).values()
    info = record.make_benchmark_entry(made, "cpu", None, "custom")["extra_info"]
    assert info["energy"] is None and info["samples"] == 3
    assert "no energy: the counter did not move in 1 s" in info["flags"]


def test_without_being_asked_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "make_energy_meter", lambda device: pytest.fail("read"))
    (made,) = measure.race(
        PROBLEM, [registry.implementation("torch/softmax/eager")], torch.device("cpu"), rounds=1
    ).values()
    assert made.energy is None and record.make_benchmark_entry(made, "cpu", None, "x")["extra_info"]["energy"] is None
