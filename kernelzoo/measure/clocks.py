"""The clocks of launches. Each describes itself, and no table mixes two.

``DeviceClock`` times a CUDA graph of launches between events, so that the host never starves the device. ``WallClock``
times them on the host. Whole calls have their own clock: :mod:`kernelzoo.measure.calls`.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter  # bound before any module is loaded
from typing import TYPE_CHECKING, Any

from kernelzoo.errors import ContractError
from kernelzoo.measure.graph_nodes import Nodes, alike, nodes_of

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch
    from kernelzoo.measure.input_mutation import Probe


OF_CALLS = ("call", "submit")
"""Clocks that time calls, not kernels, so that bytes per second mean nothing."""

_NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED


@dataclass(frozen=True)
class Sampler:
    """A callable that returns the seconds of one launch, averaged over a run through the sets."""

    run: Callable[[], float]
    launches: int
    """Launches in a run."""
    upcoming: Callable[[], Sequence[int]]
    """The numbers of the sets that the next run launches on, in the order of their last launches."""
    probe: Probe | None = None
    """Changes a set in the middle of a run, if the run launches on it several times."""
    deliver: Callable[[], None] = lambda: None
    """Copies a run's results to the sets, if they are elsewhere."""
    queue: Callable[[], None] | None = None
    """Queues a run on the device without waiting; None for runs on the host."""

    def __call__(self) -> float:
        return self.run()

    def delivered(self) -> float:
        """A run whose results are in the sets."""
        seconds = self.run()
        self.deliver()
        return seconds


class Clock(ABC):
    """Times *lanes*: a lane is one implementation bound to each of the rotated input and output sets."""

    name: str
    detail: str
    """What is timed, and how. The caller adds the state of the cache."""
    sets_bytes: int
    """Total bytes of the rotated sets for cold data."""

    @abstractmethod
    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        """Warm a lane up and return its sampler."""

    @abstractmethod
    def submit(self, launches: Sequence[Launch]) -> float | None:
        """Seconds the host takes to submit one launch; None where that is the launch itself."""

    @abstractmethod
    def forget(self) -> None:
        """Between two lanes, drop what a kernel asked the cache to keep (``evict_last``).

        Else the next lane finds part of its input there. On an H200 a copy gained 1 to 3 % after such a kernel.
        """

    @abstractmethod
    def settle(self, hot: Sequence[torch.Tensor], *, writes: bool) -> None:
        """Before a turn, bring the cache to its usual state between launches.

        Hot means that these tensors are cached. Cold (none) means that other data is. Half of that is written if the
        operation ``writes`` as much as it reads.
        """


class DeviceClock(Clock):
    """CUDA events around a replayed CUDA graph with one or more launches for every set.

    Events and graph are queued behind a spinning kernel, so the host's time does not count. The launch of each kernel
    within the graph counts: about a microsecond on an H200.
    """

    name = "device"
    detail = "CUDA graph between events"
    _RUN = 4e-3  # least seconds of work in a replay: 500 times the cost of events, graph start and probe
    _SPIN = 200_000  # clock cycles (0.1 ms) that hide the submission of a replay
    _SUBMITS = 200  # most launches to average the host's time over: fewer than the 1024 that a stream queues
    _QUEUE = 20e-3  # most seconds of queued work

    def __init__(self, device: torch.device) -> None:
        import torch

        self.device = device
        self._scratch: torch.Tensor | None = None
        self.sets_bytes = 4 * torch.cuda.get_device_properties(device).L2_cache_size
        keeps = torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)
        self._reset = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache if keeps else None
        stream: Any = torch.cuda.Stream
        self._stream = stream(device)  # torch's default capture stream belongs to the first device that used it
        self._counts = torch.version.cuda is not None  # ROCm's graph nodes are not read

    def forget(self) -> None:
        status = self._reset() if self._reset is not None else 0
        if status == _NOT_SUPPORTED:  # for example on part of a device (MIG), whose cache keeps nothing on request
            self._reset = None
        elif status:
            raise RuntimeError(f"the L2 cache can't be reset: CUDA error {status}")

    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        import torch

        for launch in launches:
            launch()
        torch.cuda.synchronize(self.device)
        sets = count = len(launches)
        graph = self._capture(launches, count)
        estimate = min(self._replay(graph, count) for _ in range(2)) * count
        if estimate < self._RUN:
            # A prime number of launches: else a kernel that works on every second one would always meet the probe
            # alike.
            count = _prime(sets * min(int(self._RUN / estimate) + 1, max(1, 4096 // sets)))
            graph = self._capture(launches, count, probe if count > sets else None)
            self._replay(graph, count)

        def sample(_alive: Sequence[Launch] = tuple(launches)) -> float:
            # A graph holds addresses: the launches must live on, since they own workspaces.
            return self._replay(graph, count)

        upcoming = [(count + i) % sets for i in range(sets)]
        return Sampler(sample, count, lambda: upcoming, probe if count > sets else None, queue=graph.replay)

    def _capture(self, launches: Sequence[Launch], count: int, probe: Probe | None = None) -> Any:
        sets = len(launches)
        probed = random.SystemRandom().choice(range(probe.number, count, sets)) if probe else None

        def all_of_them() -> None:
            for i in range(count):
                if probe and i == probed:
                    probe.before()
                    launches[i % sets]()
                    probe.after()
                else:
                    launches[i % sets]()

        def the_probe() -> None:
            if probe:
                probe.before()
                probe.after()

        graph, found = self._captured(all_of_them)
        if self._counts and not found:
            raise ContractError("its launches put no kernel into a CUDA graph", "not repeatable")
        alike(found, self._captured(the_probe)[1] if probe else Nodes(), count)
        return graph

    def _captured(self, work: Callable[[], None]) -> tuple[Any, Nodes]:
        import torch

        graph = torch.cuda.CUDAGraph()
        # The outer context restores the stream where a capture fails. "Relaxed" allows other threads, such as a
        # compiler's, to
        # call the driver.
        outer = torch.cuda.stream(torch.cuda.current_stream(self.device))
        with outer, torch.cuda.graph(graph, stream=self._stream, capture_error_mode="relaxed"):
            work()
            nodes = nodes_of(torch.cuda.current_stream().cuda_stream) if self._counts else Nodes()
        return graph, nodes

    def settle(self, hot: Sequence[torch.Tensor], *, writes: bool) -> None:
        import torch

        if hot:
            for tensor in hot:
                tensor.clone()
            return
        if self._scratch is None:
            self._scratch = torch.zeros(self.sets_bytes // 8, dtype=torch.float32, device=self.device)
        if writes:
            half = self._scratch.numel() // 2
            torch.add(self._scratch[:half], 0, out=self._scratch[half : 2 * half])
        else:
            self._scratch.sum()

    def _replay(self, graph: Any, count: int) -> float:
        import torch

        from kernelzoo.torch_private import spin

        event: Any = torch.cuda.Event  # torch has no type for it
        start, end = event(enable_timing=True), event(enable_timing=True)
        # The graph belongs to its device, and events to the current one, which loaded code may have changed.
        with torch.cuda.device(self.device):
            spin(self._SPIN)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / count

    def submit(self, launches: Sequence[Launch]) -> float | None:
        import torch

        started = perf_counter()
        for launch in launches[:2]:
            launch()
        torch.cuda.synchronize(self.device)
        count = max(5, min(self._SUBMITS, int(self._QUEUE * 2 / (perf_counter() - started))))
        best = float("inf")
        for _ in range(3):
            started = perf_counter()
            for i in range(count):
                launches[i % len(launches)]()
            best = min(best, (perf_counter() - started) / count)
            torch.cuda.synchronize(self.device)
        return best


class WallClock(Clock):
    """``time.perf_counter`` around launches that return when they are done."""

    name = "wall"
    detail = "time.perf_counter around the launch"
    sets_bytes = 128 * 2**20  # exceeds the last-level cache of a desktop processor
    _RUN = 1e-3  # least seconds of a sample: 1000 times the clock's resolution and cost
    _AHEAD = 20e-3  # launches longer than this need no warm-up: cold code costs about 0.1 ms

    def __init__(self) -> None:
        self._next = 0

    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        for launch in launches:
            launch()
        once = max(min(self._run(launches, 1) for _ in range(3)), 1e-7)
        count = max(1, int(self._RUN / once))
        if count > len(launches):  # each set twice, or the last launch might not be the one checked
            count = max(count, 2 * len(launches))
        probe = probe if count >= 2 * len(launches) else None
        ahead = int(count < len(launches) and once < self._AHEAD)

        def upcoming() -> list[int]:
            return [(self._next + i) % len(launches) for i in range(max(-ahead, count - len(launches)), count)]

        return Sampler(lambda: self._run(launches, count, ahead, probe), count, upcoming, probe)

    def _run(self, launches: Sequence[Launch], count: int, ahead: int = 0, probe: Probe | None = None) -> float:
        # Begin where the last sample ended, or a single launch would always use the same set.
        sets, first, probed = len(launches), self._next, count
        if probe:  # any launch, and often the first or the last
            chance = random.SystemRandom()
            probed = chance.choice((0, chance.randrange(count), chance.randrange(count), count - 1))
            first = (probe.number - probed) % sets
        chosen = [launches[(first + i) % sets] for i in range(count)]
        self._next = (first + count) % sets
        # Warm up the code with the previous set, which leaves the data cold.
        for launch in [launches[first - 1]] * ahead:
            launch()
        started = perf_counter()
        for launch in chosen[:probed]:
            launch()
        seconds = perf_counter() - started
        if probe:
            probe.before()
            started = perf_counter()
            chosen[probed]()
            seconds += perf_counter() - started
            probe.after()
            started = perf_counter()
            for launch in chosen[probed + 1 :]:
                launch()
            seconds += perf_counter() - started
        return seconds / count

    def submit(self, launches: Sequence[Launch]) -> float | None:
        return None

    def forget(self) -> None:
        """Nothing: a processor's cache can't be asked to keep data."""

    def settle(self, hot: Sequence[torch.Tensor], *, writes: bool) -> None:
        """Load the hot tensors. For cold data nothing is needed, since little of the sets was touched."""
        for tensor in hot:
            tensor.clone()


def _prime(least: int) -> int:
    return next(n for n in itertools.count(max(2, least)) if all(n % k for k in range(2, math.isqrt(n) + 1)))


def clock_for(device: torch.device) -> Clock:
    """The device clock on a GPU, the wall clock elsewhere."""
    return DeviceClock(device) if device.type == "cuda" else WallClock()
