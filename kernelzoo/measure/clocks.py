"""The clocks that time turns. Each clock describes itself, so that no table mixes times of two clocks.

A *turn* is a queue of launches, each on a different set of data. No untimed work runs before or between them.
Users' calls have their own clock: :mod:`kernelzoo.measure.calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import torch

from kernelzoo.errors import ContractError
from kernelzoo.launch import Launch
from kernelzoo.measure.graph_nodes import Nodes, check_equal_launches, count_captured_nodes
from kernelzoo.torch_private import spin

Turn = Callable[[int], float]
"""A function that runs a turn a number of times in a row. It returns the mean seconds of one run."""

TURN = 2e-3
"""The shortest turn in seconds: 2000 times a host clock's resolution and cost, 20 times the cost of cold code."""

InputChange = tuple[int, Callable[[], object]]
"""The index of a launch in a turn, and a function that changes this launch's input right before the launch."""


def insert_input_change(launches: Sequence[Launch], input_change: InputChange | None) -> list[Callable[[], object]]:
    """Return a turn's launches. Right before one of them is the function that changes its input, if there is one."""
    place, change = input_change or (0, None)
    return [*launches[:place], *([change] if change else []), *launches[place:]]


class DeviceClock:
    """A clock by CUDA events around a CUDA graph. The graph has a turn's launches, each on another set of data.

    The graph is queued after a spinning kernel, so the time excludes the host's work. It includes the start of each
    kernel in the graph, about a microsecond on an H200. The cost of starting the graph is subtracted.
    """

    name = "device"
    detail = "CUDA graph between events"
    """A description of what is timed, and how. The caller adds the state of the cache."""
    SPIN = 200_000  # clock cycles (0.1 ms) that hide the submission of a replay
    _CYCLES = 2e9  # most clock cycles per second
    _SUBMITS = 200  # most launches to average the host's time over: fewer than the 1024 that a stream queues
    _QUEUE = 20e-3  # most seconds of queued work
    _FILLS = 100  # launches of a second graph, to separate the cost of starting a graph from that of its launches

    def __init__(self, device: torch.device) -> None:
        self.device = device
        stream: Any = torch.cuda.Stream
        self._stream = stream(device)  # torch's default capture stream belongs to the first device that used it
        self._counts = torch.version.cuda is not None  # ROCm's graph nodes are not read

    def prepare_turn(self, launches: Sequence[Launch], input_change: InputChange | None = None) -> Turn:
        """Return a function that runs the launches in order, with the change of one input. Warm-up runs happen now."""
        graph, found = self._capture(insert_input_change(launches, input_change))
        if self._counts and not found:
            raise ContractError("its launches put no kernel into a CUDA graph", "not repeatable")
        check_equal_launches(found, self._capture([input_change[1]])[1] if input_change else Nodes(), len(launches))
        start, cycles = self.graph_start_seconds, self._warm_up(graph)

        def turn(times: int, _alive: Sequence[Launch] = tuple(launches)) -> float:
            # A graph holds addresses: the launches must live on, since they own workspaces.
            return max(self._replay(graph, cycles, times) - start, 1e-9)

        turn.queue = graph.replay  # type: ignore[attr-defined]  # for the meter of energy
        return turn

    @cached_property
    def graph_start_seconds(self) -> float:
        """The seconds to start a graph without launches, which are subtracted from each time."""
        one = torch.zeros(1, device=self.device)
        short, long = (self._capture([one.zero_] * count)[0] for count in (1, 1 + self._FILLS))
        once, many = (min(self._replay(graph) for _ in range(5)) for graph in (short, long))
        return max(0.0, once - (many - once) / self._FILLS)

    def _capture(self, launches: Sequence[Callable[[], object]]) -> tuple[Any, Nodes]:
        graph = torch.cuda.CUDAGraph()
        # The outer context restores the stream where a capture fails. "Relaxed" allows other threads, such as a
        # compiler's, to call the driver.
        outer = torch.cuda.stream(torch.cuda.current_stream(self.device))
        with outer, torch.cuda.graph(graph, stream=self._stream, capture_error_mode="relaxed"):
            for launch in launches:
                launch()
            nodes = count_captured_nodes(torch.cuda.current_stream().cuda_stream) if self._counts else Nodes()
        return graph, nodes

    def _warm_up(self, graph: Any) -> int:
        """Replay a new graph, because first replays are slow. Returns clock cycles that hide the graph's submission."""
        seconds = 0.0
        for _ in range(2):
            torch.cuda.synchronize(self.device)
            began = perf_counter()
            graph.replay()
            seconds = perf_counter() - began
        torch.cuda.synchronize(self.device)
        return max(self.SPIN, int(2 * seconds * self._CYCLES))

    def _replay(self, graph: Any, cycles: int = SPIN, times: int = 1) -> float:
        event: Any = torch.cuda.Event  # torch has no type for it
        start, end = event(enable_timing=True), event(enable_timing=True)
        # The graph belongs to its device, and events to the current one, which loaded code may have changed.
        with torch.cuda.device(self.device):
            spin(cycles)
            start.record()
            for _ in range(times):
                graph.replay()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / times

    def measure_submit_seconds(self, launches: Sequence[Launch]) -> float:
        """Return the seconds that the host takes to submit one launch."""
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


class WallClock:
    """A clock by ``time.perf_counter``, for launches that return when they are done."""

    name = "wall"
    detail = "time.perf_counter around the launch"

    def prepare_turn(self, launches: Sequence[Launch], input_change: InputChange | None = None) -> Turn:
        chosen = insert_input_change(launches, input_change)

        def turn(times: int) -> float:
            started = perf_counter()
            for _ in range(times):
                for launch in chosen:
                    launch()
            return (perf_counter() - started) / times

        return turn

    def measure_submit_seconds(self, launches: Sequence[Launch]) -> float | None:
        """Return None: on a host, to submit a launch is to run it."""
        return None


Clock = DeviceClock | WallClock
