"""The clocks of launches. Each says what it is, and no two meet in one table.

``DeviceClock`` times launches on the GPU between CUDA events, captured in a CUDA graph so that the host never starves
the device. ``WallClock`` times them on the host. Whole calls have a clock of their own: :mod:`kernelzoo.measure.calls`.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter  # the clock as it was before any module was loaded
from typing import TYPE_CHECKING, Any

from kernelzoo.errors import ContractError
from kernelzoo.measure.graph_nodes import Nodes, alike, nodes_of

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch
    from kernelzoo.measure.input_mutation import Probe


OF_CALLS = ("call", "submit")
"""Clocks by which a time is of a call and not of a kernel: bytes per second would say nothing."""

_NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED


@dataclass(frozen=True)
class Sampler:
    """Called, it gives the seconds that one launch takes, averaged over a run through the sets."""

    run: Callable[[], float]
    launches: int
    """In a run."""
    upcoming: Callable[[], Sequence[int]]
    """The numbers of the sets that the next run launches on, in the order in which it is done with them."""
    probe: Probe | None = None
    """What changes a set in the midst of each run, if that launches on it several times."""
    deliver: Callable[[], None] = lambda: None
    """After a run, brings the results to the sets, if it left them elsewhere."""
    queue: Callable[[], None] | None = None
    """Puts a run in the device's queue and waits for nothing; None where a run is the host's."""

    def __call__(self) -> float:
        return self.run()

    def delivered(self) -> float:
        """A run, and its results brought to the sets."""
        seconds = self.run()
        self.deliver()
        return seconds


class Clock(ABC):
    """Times *lanes*: a lane is one implementation bound to each of the rotated input and output sets."""

    name: str
    detail: str
    """What is read, and between what; the state of the cache is the caller's to say."""
    sets_bytes: int
    """The rotated sets together must hold this many bytes for the data to be cold."""

    @abstractmethod
    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        """Warm a lane up and return its sampler."""

    @abstractmethod
    def submit(self, launches: Sequence[Launch]) -> float | None:
        """Seconds the host takes to submit one launch, or None where that is the launch itself."""

    @abstractmethod
    def forget(self) -> None:
        """Between two lanes' turns: make the cache forget what a kernel asked it to keep (``evict_last``).

        Else the next lane finds some of its input there, which is the same: on an H200 a copy gained 1 to 3 % by such a
        kernel before it.
        """

    @abstractmethod
    def settle(self, hot: Sequence[torch.Tensor], *, writes: bool) -> None:
        """Before a turn: bring the cache back to what it is between two launches, whatever was done since the last.

        Hot, these tensors are in it; cold (none), other data is, half of it written if the operation ``writes`` as much
        as it reads.
        """


class DeviceClock(Clock):
    """CUDA events around a replayed CUDA graph that holds a launch for every set, some times over.

    The events and the graph are queued behind a kernel that spins, so that all of them wait on the device and no time
    of the host's is counted. The launch of each kernel within the graph is counted: about a microsecond on an H200.
    """

    name = "device"
    detail = "CUDA graph between events"
    _RUN = 4e-3  # seconds of work in one replay, at least: 500 times what events, a graph's start and a probe cost
    _SPIN = 200_000  # clock cycles (0.1 ms) that hide the host's submission of one replay
    _SUBMITS = 200  # launches to average the host's time over, at most: fewer than the 1024 that a stream queues
    _QUEUE = 20e-3  # seconds of work to queue up meanwhile, at most

    def __init__(self, device: torch.device) -> None:
        import torch

        self.device = device
        self._scratch: torch.Tensor | None = None
        self.sets_bytes = 4 * torch.cuda.get_device_properties(device).L2_cache_size
        keeps = torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)
        self._reset = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache if keeps else None
        stream: Any = torch.cuda.Stream
        self._stream = stream(device)  # torch's own for captures is the first that any device asks for
        self._counts = torch.version.cuda is not None  # the nodes of graphs; ROCm's are not looked at

    def forget(self) -> None:
        status = self._reset() if self._reset is not None else 0
        if status == _NOT_SUPPORTED:  # by a part of a device (MIG), say, whose cache keeps nothing on request
            self._reset = None
        elif status:
            raise RuntimeError(f"the L2 cache can't be made to forget: CUDA error {status}")

    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        import torch

        for launch in launches:
            launch()
        torch.cuda.synchronize(self.device)
        sets = count = len(launches)
        graph = self._capture(launches, count)
        estimate = min(self._replay(graph, count) for _ in range(2)) * count
        if estimate < self._RUN:
            # A prime number of launches: else a kernel that works on every second would meet the probe alike each turn.
            count = _prime(sets * min(int(self._RUN / estimate) + 1, max(1, 4096 // sets)))
            graph = self._capture(launches, count, probe if count > sets else None)
            self._replay(graph, count)

        def sample(_alive: Sequence[Launch] = tuple(launches)) -> float:
            # A graph holds addresses: the launches must live on, for the workspaces they own.
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
        # The outer context restores the stream where a capture fails, which torch's does not. Relaxed: another thread,
        # a compiler's worker say, may talk to the driver meanwhile.
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

        event: Any = torch.cuda.Event  # torch does not type it
        start, end = event(enable_timing=True), event(enable_timing=True)
        # A graph is of the device that it was captured on, and events are of the current one, which anything that was
        # loaded meanwhile may have changed.
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
    sets_bytes = 128 * 2**20  # past the last-level cache of a desktop processor
    _RUN = 1e-3  # seconds in one sample, at least: 1000 times the clock's own resolution and cost
    _AHEAD = 20e-3  # seconds of a launch to which some 0.1 ms of cold code make no difference

    def __init__(self) -> None:
        self._next = 0

    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        for launch in launches:
            launch()
        once = max(min(self._run(launches, 1) for _ in range(3)), 1e-7)
        count = max(1, int(self._RUN / once))
        if count > len(
            launches
        ):  # twice on each, or it is left to chance whether it is the last launch that is checked
            count = max(count, 2 * len(launches))
        probe = probe if count >= 2 * len(launches) else None
        ahead = int(count < len(launches) and once < self._AHEAD)

        def upcoming() -> list[int]:
            return [(self._next + i) % len(launches) for i in range(max(-ahead, count - len(launches)), count)]

        return Sampler(lambda: self._run(launches, count, ahead, probe), count, upcoming, probe)

    def _run(self, launches: Sequence[Launch], count: int, ahead: int = 0, probe: Probe | None = None) -> float:
        # Begin each sample where the last one ended, or a single launch would always meet the same set.
        sets, first, probed = len(launches), self._next, count
        if probe:  # any launch, and often the first or the last
            chance = random.SystemRandom()
            probed = chance.choice((0, chance.randrange(count), chance.randrange(count), count - 1))
            first = (probe.number - probed) % sets
        chosen = [launches[(first + i) % sets] for i in range(count)]
        self._next = (first + count) % sets
        # What was done since the last turn has cooled the code, if not the data, down. The set is that before.
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
        """A processor's cache can't be asked to keep anything."""

    def settle(self, hot: Sequence[torch.Tensor], *, writes: bool) -> None:
        """Cold, what was touched since is a small part of the sets."""
        for tensor in hot:
            tensor.clone()


def _prime(least: int) -> int:
    return next(n for n in itertools.count(max(2, least)) if all(n % k for k in range(2, math.isqrt(n) + 1)))


def clock_for(device: torch.device) -> Clock:
    """The device clock on a GPU, the wall clock elsewhere."""
    return DeviceClock(device) if device.type == "cuda" else WallClock()
