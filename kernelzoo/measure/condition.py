"""Watches on the device while samples are taken. They detect other work and changed clocks.

A GPU is read through NVML, a host through Linux's scheduler. If neither works, samples are taken without a watch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelzoo.lazy import torch

DISTURBED = "disturbed"
"""The flag of a result with samples from a disturbed device."""

MOVED = 0.02
"""Samples count as disturbed if a clock changes, or a thread waits for a processor, by more than this fraction."""

# Clock event reasons (nvml.h) that slow a GPU down. Idle and user-set limits are left out: they affect all samples
# alike.
_SLOWING = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_CLOCK_SM, _CLOCK_MEMORY, _TEMPERATURE_GPU = 1, 2, 0  # constants of nvml.h

_TASKS = "/proc/{}/task"

_BUSY, _TICKS = 0.2, 0.03
"""Other processes may take this mean number of processors, or these seconds of work, from torch's threads."""


@dataclass(frozen=True)
class DeviceCondition:
    """The state of a device at one moment. None means unknown."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    """Watts, averaged by the device; recent GPUs average over a second."""
    throttled: tuple[str, ...] = ()
    """The reasons that hold the clocks down at this moment."""
    processes: int | None = None
    """Processes with a compute context on the device, this one included; in a container often unknown."""
    waited_s: float | None = None
    """On a host: seconds that threads have waited for a processor since the watch began; see :class:`HostWatch`."""
    others_s: float | None = None
    """On a host: seconds that the processors have worked for other processes since the watch began."""
    at_s: float = 0.0
    """Seconds since the watch began."""


class GpuWatch:
    """A watch on a GPU. Throttling, a changed SM or memory clock, or a new process disturbs samples.

    An idle GPU lowers its clock, so give it some milliseconds of work before the first reading. The watch can't detect
    a short disturbance between two readings, or a process that was running before.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle, self._began = nvml, handle, time.perf_counter()
        # Drivers before 535 use the old name of the reasons.
        self._reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons
        if self._ask(self._reasons) is None:
            self._reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons

    def read(self) -> DeviceCondition:
        """Return the GPU's present condition. The call takes well under a millisecond, and never raises."""
        nvml = self._nvml
        reasons = self._ask(self._reasons) or 0
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage)
        processes = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses)
        return DeviceCondition(
            sm_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, _CLOCK_SM),
            memory_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, _CLOCK_MEMORY),
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, _TEMPERATURE_GPU),
            power_w=None if milliwatts is None else milliwatts / 1e3,
            throttled=tuple(name for bit, name in _SLOWING.items() if reasons & bit),
            processes=None if processes is None else len(processes),
            at_s=time.perf_counter() - self._began,
        )

    def disturbed(self, before: DeviceCondition, after: DeviceCondition) -> str:
        """Return why samples between two readings can't be trusted; "" if they can."""
        slowing = [name for name in _SLOWING.values() if name in before.throttled + after.throttled]
        if slowing:
            return f"the GPU held its clocks down: {', '.join(slowing)}"
        clocks = (("SM", before.sm_mhz, after.sm_mhz), ("memory", before.memory_mhz, after.memory_mhz))
        for name, was, now in clocks:
            if was and now and abs(now - was) > MOVED * was:
                return f"the {name} clock went from {was} to {now} MHz"
        if before.processes is not None and after.processes is not None and after.processes > before.processes:
            return f"another process came to the device: {after.processes} use it, {before.processes} before"
        return ""

    def describe_other_processes(self, ours: Collection[int]) -> str:
        """Return as text how many processes besides ``ours`` use the GPU. "" if none, or if NVML uses other ids."""
        processes = {one.pid for one in self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses) or ()}
        left = processes - {*ours} if os.getpid() in processes else ()
        return f"{len(left)} other processes use the device" if left else ""

    def _ask(self, function: Callable[..., Any], *arguments: int) -> Any:
        """Return the answer of one of NVML's functions about the device; None if device or driver don't support it."""
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None


class HostWatch:
    """A watch on a host. Samples are disturbed if a ready thread of these processes waits over 2 % of the time for a
    processor. They are disturbed too if other processes leave too few processors for torch's threads.

    Linux counts waits in nanoseconds for each thread, and other work in ticks of 10 ms. The watch does not see a
    changed clock, or work on the core's other hardware thread. Each reading adds the longest wait of one thread to
    ``waited_s``, because one late thread delays the kernel."""

    def __init__(self, processes: Sequence[int | str]) -> None:
        self._processes, self._began = processes, time.perf_counter()
        self._waits, self._waited, self._used = _read_thread_waits(processes), 0.0, _read_cpu_seconds(processes)

    def ignore_untimed_waits(self) -> None:
        """Ignore the threads' waits since the last reading, because nothing was timed."""
        self._waits = _read_thread_waits(self._processes)

    def read(self) -> DeviceCondition:
        waits = _read_thread_waits(self._processes)
        longest = max((wait - self._waits.get(thread, 0) for thread, wait in waits.items()), default=0)
        self._waits, self._waited = waits, self._waited + longest * 1e-9
        passed, used = time.perf_counter() - self._began, _read_cpu_seconds(self._processes)
        others = None
        if used is not None and self._used is not None:
            (idle, ours), (idle_before, ours_before) = used, self._used
            others = max(0.0, _processors() * passed - (idle - idle_before) - (ours - ours_before))
        return DeviceCondition(waited_s=self._waited, others_s=others, at_s=passed)

    def disturbed(self, before: DeviceCondition, after: DeviceCondition) -> str:
        waited, passed = (after.waited_s or 0) - (before.waited_s or 0), after.at_s - before.at_s
        if waited > MOVED * passed:
            return f"a thread waited {waited * 1e3:.1f} of {passed * 1e3:.1f} ms for a processor"
        others = (after.others_s or 0) - (before.others_s or 0)
        spare = max(0, _processors() - torch.get_num_threads())
        if others > spare * passed + max(_TICKS, _BUSY * passed):
            return f"other processes used {others / passed:.1f} of {_processors()} processors"
        return ""

    def describe_other_processes(self, ours: Collection[int]) -> str:
        """Return "": on a host, other work shows as waits for processors."""
        return ""


Watch = GpuWatch | HostWatch


def watch(device: torch.device, processes: Sequence[int | str] = ("self",)) -> Watch | None:
    """Return a watch on the device; None if it can't be watched. ``processes``: those to watch on a host."""
    if device.type == "cuda":
        found = find_nvml(device)
        return None if isinstance(found, str) else GpuWatch(*found)
    return HostWatch(processes) if device.type == "cpu" and _read_thread_waits(processes) else None


def find_nvml(device: torch.device) -> tuple[Any, Any] | str:
    """Return the module pynvml and its handle of the GPU, or the reason why there is none."""
    try:
        import pynvml
    except ImportError:
        return "the package nvidia-ml-py is not installed; pip install nvidia-ml-py"
    if not torch.cuda.is_available():
        return "torch sees no GPU"
    try:
        pynvml.nvmlInit()  # NVML counts these calls, and a repeated one is cheap
        return pynvml, _handle(pynvml, torch.cuda.get_device_properties(device))
    except pynvml.NVMLError as error:
        return f"NVML does not know the device: {error}"


def _handle(nvml: Any, properties: Any) -> Any:
    """Return NVML's handle of the device that torch describes, found by UUID or bus address. Raises NVMLError.

    NVML numbers all devices, but torch only visible ones. A slice of a GPU (MIG) has its own UUID, but NVML expects
    another format. So the slice is found by the GPU's bus address. Its clocks are the GPU's clocks.
    """
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")
    except nvml.NVMLError:
        if not hasattr(properties, "pci_bus_id"):  # an old torch
            raise
        place = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        return nvml.nvmlDeviceGetHandleByPciBusId(place)


def _read_thread_waits(processes: Sequence[int | str]) -> dict[str, int]:
    """Return, for each thread of these processes, the nanoseconds that it was ready but waited for a processor."""
    waits = {}
    for process in processes:
        place = Path(_TASKS.format(process))
        try:
            threads = os.listdir(place)
        except OSError:  # not Linux, or ended
            continue
        for thread in threads:
            try:
                waits[thread] = int((place / thread / "schedstat").read_bytes().split()[1])
            except (OSError, IndexError):  # the thread has ended, or the kernel does not count
                continue
    return waits


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _read_cpu_seconds(processes: Sequence[int | str]) -> tuple[float, float] | None:
    """Return our processors' idle seconds, and the seconds that this process and ``processes`` ran; None if unknown."""
    tick = 1 / os.sysconf("SC_CLK_TCK")
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        counts = {line.split()[0]: line.split() for line in lines if line.startswith("cpu")}
        idle = sum(int(count) for one in os.sched_getaffinity(0) for count in counts[f"cpu{one}"][4:6])
        ours = 0
        for process in {"self", *map(str, processes)}:
            fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ours += int(fields[11]) + int(fields[12])
    except (OSError, KeyError, ValueError):  # not Linux, or a process has ended
        return None
    return idle * tick, ours * tick
