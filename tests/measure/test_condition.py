"""The watch on a device: what NVML and Linux tell, what they don't, and which samples that speaks against."""

import os
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernelzoo.measure import condition
from kernelzoo.measure.condition import DeviceCondition, find_nvml, watch

CUDA = torch.device("cuda", 1)
UUID = "8f6a24c1-0000-1111-2222-333344445555"


class NVMLError(Exception):
    pass


class Nvml(types.ModuleType):
    """pynvml as far as it is used: a machine with two GPUs. What ``refused`` names raises, as NVML does."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.refused: set[str] = set()
        self.reasons = 0x1 | 0x2  # idle, and clocks that somebody set
        self.clocks = {1: 1980, 2: 3201}
        self.processes = [object()]
        self.answers: dict[str, Callable[..., Any]] = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetHandleByUUID": {f"GPU-{UUID}": "by uuid"}.__getitem__,
            "nvmlDeviceGetHandleByPciBusId": {"00000001:1b:00.0": "by place"}.__getitem__,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: self.reasons,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: self.reasons,
            "nvmlDeviceGetClockInfo": lambda handle, kind: self.clocks[kind],
            "nvmlDeviceGetTemperature": lambda handle, sensor: {0: 41}[sensor],
            "nvmlDeviceGetPowerUsage": lambda handle: 118_250,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: self.processes,
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if name in self.refused:
                raise NVMLError("Not Supported")
            try:
                return self.answers[name](*arguments)
            except KeyError:
                raise NVMLError("Not Found") from None

        return call


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """A machine on which torch's cuda:1 is the GPU that NVML's fake knows by UUID and by place."""
    fake = Nvml()
    properties = types.SimpleNamespace(uuid=UUID, pci_domain_id=1, pci_bus_id=0x1B, pci_device_id=0)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", {CUDA: properties}.__getitem__)
    return fake


def watched(device: torch.device) -> condition.Watch:
    watcher = watch(device)
    assert watcher is not None
    return watcher


def test_reads_what_nvml_tells(nvml: Nvml) -> None:
    watcher = watched(CUDA)
    assert watcher._handle == "by uuid"
    first = watcher.read()
    assert replace(first, at_s=0.0) == DeviceCondition(1980, 3201, 41, 118.25, (), processes=1)
    assert watcher.read().at_s > first.at_s > 0


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x04, "software power cap"),
        (0x08, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "hardware power brake"),
    ],
)
def test_what_slows_a_gpu_disturbs_at_either_end(nvml: Nvml, bit: int, name: str) -> None:
    watcher = watched(CUDA)
    calm = watcher.read()
    nvml.reasons |= bit
    slowed = watcher.read()
    assert slowed.throttled == (name,)
    assert watcher.disturbed(calm, calm) == ""
    for before, after in ((calm, slowed), (slowed, calm), (slowed, slowed)):
        assert watcher.disturbed(before, after) == f"the GPU held its clocks down: {name}"


@pytest.mark.parametrize("bit", [0x1, 0x2, 0x10, 0x100])
def test_rest_and_set_clocks_are_no_disturbance(nvml: Nvml, bit: int) -> None:
    """Idle, application clocks, sync boost, display clocks: what holds for every sample alike."""
    nvml.reasons = bit
    watcher = watched(CUDA)
    assert watcher.read().throttled == ()


def test_real_nvml_numbers_the_reasons_and_clocks_the_same() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert set(condition._SLOWING) == {
        pynvml.nvmlClocksEventReasonSwPowerCap,
        pynvml.nvmlClocksEventReasonHwSlowdown,
        pynvml.nvmlClocksEventReasonSwThermalSlowdown,
        pynvml.nvmlClocksEventReasonHwThermalSlowdown,
        pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    }
    assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM) == (condition._CLOCK_SM, condition._CLOCK_MEMORY)
    assert condition._TEMPERATURE_GPU == pynvml.NVML_TEMPERATURE_GPU
    assert all(callable(getattr(pynvml, name)) for name in Nvml().answers)


@pytest.mark.parametrize(
    ("clock", "was", "mhz", "words"),
    [
        (1, 1980, 1950, ""),
        (1, 1980, 1900, "the SM clock went from 1980 to 1900 MHz"),
        (1, 345, 1980, "the SM clock went from 345 to 1980 MHz"),  # it comes up from rest
        (2, 3201, 2619, "the memory clock went from 3201 to 2619 MHz"),
    ],
)
def test_a_clock_that_moved_disturbs(nvml: Nvml, clock: int, was: int, mhz: int, words: str) -> None:
    watcher = watched(CUDA)
    nvml.clocks[clock] = was
    before = watcher.read()
    nvml.clocks[clock] = mhz
    assert watcher.disturbed(before, watcher.read()) == words


def test_a_process_that_comes_disturbs_and_one_that_stays_does_not(nvml: Nvml) -> None:
    watcher = watched(CUDA)
    alone = watcher.read()
    nvml.processes.append(object())
    shared = watcher.read()
    assert "another process came" in watcher.disturbed(alone, shared)
    assert watcher.disturbed(shared, shared) == ""
    assert watcher.disturbed(shared, alone) == ""


READS = {
    "nvmlDeviceGetClockInfo": {"sm_mhz": None, "memory_mhz": None},
    "nvmlDeviceGetTemperature": {"temperature_c": None},
    "nvmlDeviceGetPowerUsage": {"power_w": None},
    "nvmlDeviceGetComputeRunningProcesses": {"processes": None},
}


@pytest.mark.parametrize("refused", [*([name] for name in READS), list(READS)], ids=lambda names: "+".join(names)[:40])
def test_what_a_device_does_not_tell_is_none(nvml: Nvml, refused: list[str]) -> None:
    watcher = watched(CUDA)
    whole = watcher.read()
    nvml.refused.update(refused)
    expected = whole
    for name in refused:
        expected = replace(expected, **READS[name])
    read = watcher.read()
    assert replace(read, at_s=whole.at_s) == expected
    assert watcher.disturbed(whole, read) == watcher.disturbed(read, whole) == ""


def test_an_older_driver_tells_its_reasons_by_the_old_name(nvml: Nvml) -> None:
    nvml.refused.add("nvmlDeviceGetCurrentClocksEventReasons")
    nvml.reasons = 0x40
    watcher = watched(CUDA)
    assert watcher.read().throttled == ("hardware thermal slowdown",)
    nvml.refused.add("nvmlDeviceGetCurrentClocksThrottleReasons")
    assert watcher.read().throttled == ()


def test_a_device_is_found_by_its_place_where_its_uuid_is_not_known(nvml: Nvml) -> None:
    nvml.refused.add("nvmlDeviceGetHandleByUUID")
    watcher = watched(CUDA)
    assert watcher._handle == "by place"


ELSEWHERE = types.SimpleNamespace(uuid="other", pci_domain_id=0, pci_bus_id=0, pci_device_id=0)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda nvml, patch: patch.setitem(sys.modules, "pynvml", None), "pip install nvidia-ml-py"),
        (lambda nvml, patch: nvml.refused.add("nvmlInit"), "NVML does not know the device: Not Supported"),
        (lambda nvml, patch: patch.setattr(torch.cuda, "is_available", lambda: False), "torch sees no GPU"),
        *(
            (
                lambda nvml, patch, found=found: patch.setattr(torch.cuda, "get_device_properties", lambda _: found),
                "NVML does not know the device: Not Found",
            )
            for found in (ELSEWHERE, types.SimpleNamespace(uuid="other"))
        ),
    ],
)
def test_what_cannot_be_watched_says_why_and_does_not_raise(nvml, monkeypatch, broken, words) -> None:
    broken(nvml, monkeypatch)
    assert watch(CUDA) is None
    assert words in find_nvml(CUDA)


def test_another_kind_of_device_is_not_watched() -> None:
    assert watch(torch.device("meta")) is None


CPU = torch.device("cpu")

CONTENTION = """
import os, subprocess, sys, time
import torch
from kernelzoo.measure.condition import watch

processor = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {processor})
watcher = watch(torch.device("cpu"))

def work(seconds):
    before, end = watcher.read(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return watcher.disturbed(before, watcher.read())

other = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # on the same processor: it inherits that
time.sleep(0.3)
contended = [work(0.05) for _ in range(5)]
other.kill()
other.wait()
rests = []
for _ in range(20):  # a thread that sleeps is not ready to run, so it waits for nothing but to wake up
    before = watcher.read()
    time.sleep(0.05)
    rests.append(watcher.disturbed(before, watcher.read()))
waits = ["for a processor" in reason for reason in rests]  # others may use the processor
print(sum("for a processor" in reason for reason in contended), not all(waits))
"""


@pytest.mark.skipif(watch(CPU) is None, reason="this system does not count how long threads wait")
def test_a_host_that_shares_its_processor_is_disturbed() -> None:
    """Two processes on one processor: each waits half of the time. At rest none does, but for what else runs here."""
    done = subprocess.run([sys.executable, "-c", CONTENTION], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["5", "True"], done.stdout


def test_a_host_counts_the_longest_wait_of_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {"1": 0, "2": 5_000_000}
    monkeypatch.setattr(condition, "_read_thread_waits", lambda processes: dict(waits))
    watcher = watched(CPU)
    before = watcher.read()
    assert before.waited_s == 0.0
    waits.update({"1": 1_000_000, "2": 8_000_000, "3": 2_000_000})
    after = watcher.read()
    assert after.waited_s == pytest.approx(3e-3)
    hundred = replace(after, at_s=before.at_s + 0.1)
    assert watcher.disturbed(before, hundred) == "a thread waited 3.0 of 100.0 ms for a processor"
    assert watcher.disturbed(before, replace(after, at_s=before.at_s + 0.2)) == ""


def test_a_host_without_the_counters_is_not_watched(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(condition, "_TASKS", str(tmp_path / "nowhere"))
    assert watch(CPU) is None
    monkeypatch.setattr(condition, "_TASKS", str(tmp_path))
    (tmp_path / "17").mkdir()  # a thread whose file is missing
    assert watch(CPU) is None


def test_other_processes_on_a_gpu_are_told_from_ours(nvml: Nvml) -> None:
    """Where NVML counts in another namespace than ours, nobody can be told."""
    watcher = watched(CUDA)
    nvml.processes = [types.SimpleNamespace(pid=pid) for pid in (os.getpid(), 70, 71)]
    assert watcher.describe_other_processes({os.getpid(), 70}) == "1 other processes use the device"
    assert watcher.describe_other_processes({os.getpid(), 70, 71}) == ""
    nvml.processes = nvml.processes[1:]
    assert watcher.describe_other_processes({os.getpid()}) == ""


def test_a_host_s_waits_between_turns_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {"1": 0}
    monkeypatch.setattr(condition, "_read_thread_waits", lambda processes: dict(waits))
    watcher = watched(CPU)
    assert isinstance(watcher, condition.HostWatch)
    waits["1"] = 4_000_000
    watcher.ignore_untimed_waits()
    waits["1"] = 5_000_000
    assert watcher.read().waited_s == pytest.approx(1e-3)


@pytest.mark.parametrize(("used", "busy"), [(0.02, False), (0.1, False), (0.4, True)])
def test_a_host_of_which_others_take_a_processor_is_disturbed(
    used: float, busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two processors for a second, this process used the rest of what was not idle."""
    monkeypatch.setattr(condition, "_read_thread_waits", lambda processes: {"1": 0})
    monkeypatch.setattr(condition, "_processors", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    now = [0.0]
    monkeypatch.setattr(condition.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(condition, "_read_cpu_seconds", lambda processes: (0.5 * now[0], (1.5 - used) * now[0]))
    watcher = watched(CPU)
    before, now[0] = watcher.read(), 1.0
    after = watcher.read()
    assert after.others_s == pytest.approx(used)
    assert watcher.disturbed(before, after) == "other processes used 0.4 of 2 processors" * busy
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # the other one is spare
    assert watcher.disturbed(before, after) == ""


@pytest.mark.skipif(watch(CPU) is None, reason="this system does not count how long threads wait")
def test_a_host_knows_what_it_has_used() -> None:
    before = condition._read_cpu_seconds(["self"])
    sum(number * number for number in range(2_000_000))
    after = condition._read_cpu_seconds(["self"])
    assert before is not None and after is not None and after[1] - before[1] >= 0.02 and after[0] >= before[0]
    assert condition._read_cpu_seconds(["4194305"]) is None
