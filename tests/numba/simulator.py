"""Numba's CUDA simulator with what it lacks and kernelzoo's kernels use; ``install()`` adds it.

Threads are greenlets in a shuffled order, so that a missing barrier shows. Shared arrays begin full of ones (NaN).
Blocks run one after the other, unless one waits for a later one; those of a cluster run at once (``clusters_of``).
"""

import functools
import random
import sys
import types as python_types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import greenlet
import numpy as np
from numba.cuda import types
from numba.cuda.np import numpy_support
from numba.cuda.simulator import kernel, kernelapi
from numba.cuda.simulator.kernel import BlockManager, FakeCUDAKernel
from numba.cuda.simulator.kernelapi import Dim3, FakeCUDAModule, FakeCUDAShared

WARP = 32


class _Thread(greenlet.greenlet):
    """One thread of a block, with the attributes that the simulator's words read."""

    def __init__(self, run: Callable[[], None], manager: BlockManager, block: Any, place: Any) -> None:
        super().__init__(run)
        self._manager = manager
        self.blockIdx, self.threadIdx = Dim3(*block), Dim3(*place)
        x, y, _ = (*manager._block_dim, 1, 1)[:3]
        self.thread_id = self.threadIdx.x + x * (self.threadIdx.y + y * self.threadIdx.z)

    def syncthreads(self) -> None:
        self._manager._barrier.wait()


class _Scheduler:
    """The threads of a block or a cluster, which run at once; and of the next while those poll for what it writes."""

    def __init__(self) -> None:
        self.ready: list[_Thread] = []
        self.polling: list[_Thread] = []
        self.asked = 0  # in vain, since some thread last did anything else
        self.random = random.Random(0)

    def wake(self, threads: list[_Thread]) -> None:
        self.random.shuffle(threads)
        self.ready += threads
        self.asked = 0

    def poll(self) -> None:
        """Let the others run before this thread asks again."""
        thread: Any = greenlet.getcurrent()
        self.polling.append(thread)
        thread.parent.switch()

    def run(self, blocks: Iterator[list[_Thread]]) -> None:
        """Run all to their ends. Raises what one of them raises, and RuntimeError where all that are left wait."""
        started: list[_Thread] = []
        try:
            while True:
                while self.ready:
                    self.ready.pop().switch()
                again, self.polling = self.polling, []
                if not again or self.asked > 1:
                    following = next(blocks, [])
                    started = [thread for thread in started if not thread.dead] + following
                    if not following and not again:
                        break
                    if following:
                        self.wake(list(following))
                self.asked += 1
                if self.asked > 100:
                    raise RuntimeError("threads ask for what nobody writes")
                self.ready += again
            if started:
                raise RuntimeError("every thread that is left waits for another")
        finally:
            for thread in started:
                if not thread.dead:
                    thread.throw()


class _Barrier:
    """Where threads wait for each other: the living ones of a block, or the lanes of a warp."""

    def __init__(self, scheduler: _Scheduler, threads: int) -> None:
        self.scheduler = scheduler
        self.living = threads
        self.waiting: list[_Thread] = []

    def wait(self) -> None:
        thread: Any = greenlet.getcurrent()
        self.waiting.append(thread)
        self._release_if_all()
        thread.parent.switch()

    def leave(self) -> None:
        self.living -= 1
        self._release_if_all()

    def _release_if_all(self) -> None:
        if len(self.waiting) == self.living:
            woken, self.waiting = self.waiting, []
            self.scheduler.wake(woken)


class _Warp:
    """The lanes of one warp of the running block, and the place where they exchange values."""

    def __init__(self, scheduler: _Scheduler, lanes: int) -> None:
        self.barrier = _Barrier(scheduler, lanes)
        self.values: list[Any] = [None] * lanes

    def exchange(self, lane: int, value: Any, source: int) -> Any:
        self.values[lane] = value
        self.barrier.wait()
        taken = self.values[source] if source < len(self.values) else value
        self.barrier.wait()
        return taken


def _shfl_xor_sync(self: FakeCUDAModule, mask: int, value: Any, distance: int) -> Any:
    if mask != 0xFFFFFFFF:
        raise NotImplementedError(f"only whole warps are simulated, got the mask {mask:#x}")
    thread: Any = greenlet.getcurrent()
    warp, lane = divmod(thread.thread_id, WARP)
    return thread._manager._warps[warp].exchange(lane, value, lane ^ distance)


def _shared_array(self: FakeCUDAShared, shape: int, dtype: Any, alignment: int | None = None) -> Any:
    """The array of the line that asks, one for all threads of a block; of dynamic shared memory for the shape 0."""
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno) if shape else "dynamic"
    kind = np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)
    count = shape or self._dynshared_size // kind.itemsize
    thread: Any = greenlet.getcurrent()
    arrays = thread._manager._arrays
    if place not in arrays:
        arrays[place] = np.full(count * kind.itemsize, 0xFF, np.uint8).view(kind)
    return arrays[place]


class Cluster:
    """Blocks that run at once, and what they have sent each other."""

    blocks = 1
    """To a cluster, of all that are launched now; ``clusters_of`` says how many."""

    def __init__(self, scheduler: _Scheduler, managers: list[BlockManager]) -> None:
        self.scheduler = scheduler
        self.managers = managers
        self.threads = sum(int(np.prod(manager._block_dim)) for manager in managers)
        self.waiting: list[_Thread] = []
        self.arrived = 0
        self.expected: list[int | None] = [None] * len(managers)
        self.received = [0] * len(managers)

    def until(self, condition: Callable[[], bool]) -> None:
        thread: Any = greenlet.getcurrent()
        while not condition():
            self.waiting.append(thread)
            thread.parent.switch()

    def changed(self) -> None:
        woken, self.waiting = self.waiting, []
        self.scheduler.wake(woken)

    @staticmethod
    def here() -> "tuple[Cluster, int, Any]":
        thread: Any = greenlet.getcurrent()
        cluster = thread._manager._cluster
        return cluster, cluster.managers.index(thread._manager), thread

    @staticmethod
    def cluster_arrive(barrier: np.ndarray, count: int) -> None:
        self, rank, _ = Cluster.here()
        assert self.expected[rank] in (None, int(count)), "threads of a block expect the same"
        self.expected[rank] = int(count)
        self.arrived += 1
        if self.arrived == self.threads:
            self.changed()

    @staticmethod
    def cluster_wait() -> None:
        self, _, _ = Cluster.here()
        self.until(lambda: self.arrived == self.threads)

    @staticmethod
    def send(array: np.ndarray, i: int, values: tuple[Any, ...], barrier: np.ndarray, rank: int) -> None:
        self, _, thread = Cluster.here()
        (place,) = (place for place, own in thread._manager._arrays.items() if own is array)
        assert self.managers[rank]._barrier.living, "sent to a block that has ended"
        self.managers[rank]._arrays[place][i : i + len(values)] = values
        self.received[rank] += len(values) * array.itemsize
        assert self.received[rank] <= (self.expected[rank] or 0), "more is sent than is expected"
        if self.received[rank] == self.expected[rank]:
            self.changed()

    @staticmethod
    def wait_for(barrier: np.ndarray) -> None:
        self, rank, _ = Cluster.here()
        self.until(lambda: self.received[rank] == self.expected[rank])


@contextmanager
def clusters_of(blocks: int) -> Iterator[None]:
    """Blocks to a cluster: what the launch says, which the simulator isn't told."""
    Cluster.blocks = blocks
    try:
        yield
    finally:
        Cluster.blocks = 1


def _run_grid(self: BlockManager, grid_point: Any, *arguments: Any) -> None:
    """Every thread of all blocks to its end, when it is the first block's turn. Raises the first error of any."""
    if any(grid_point):
        return
    scheduler = _Scheduler()
    size = int(np.prod(self._block_dim))
    clusters = []

    def started(first: int, rest: tuple[int, ...]) -> list[_Thread]:
        managers = [BlockManager(self._f, self._grid_dim, self._block_dim, self._debug) for _ in range(Cluster.blocks)]
        clusters.append(cluster := Cluster(scheduler, managers))
        threads = []
        for rank, manager in enumerate(managers):
            barrier = _Barrier(scheduler, size)
            warps = [_Warp(scheduler, min(WARP, size - start)) for start in range(0, size, WARP)]
            vars(manager).update(_cluster=cluster, _barrier=barrier, _warps=warps, _arrays={}, _scheduler=scheduler)

            def target(barrier: _Barrier = barrier) -> None:
                self._f(*arguments)
                barrier.leave()

            place = (first + rank, *rest)
            threads += [_Thread(target, manager, place, point) for point in np.ndindex(*self._block_dim)]
        return threads

    points = np.ndindex(*self._grid_dim)
    scheduler.run(started(first, tuple(rest)) for first, *rest in points if first % Cluster.blocks == 0)
    for cluster in clusters:
        for received, expected in zip(cluster.received, cluster.expected, strict=True):
            assert received in (0, expected), "less is sent than is expected"


_launch = FakeCUDAKernel.__call__
_replaced: dict[int, dict[str, Any]] = {}  # the names of modules that have it now
_until_the_end = ExitStack()


def _called(self: FakeCUDAKernel, *arguments: Any) -> Any:
    """Launch a kernel, or call a device function; the simulator's ``cuda`` stays in the module until it ends."""
    if kernel._kernel_context is None:
        try:
            return _launch(self, *arguments)
        finally:
            _replaced.clear()
            _until_the_end.close()
    names = self.fn.__globals__
    if id(names) not in _replaced:
        _replaced[id(names)] = names
        _until_the_end.enter_context(kernelapi.swapped_cuda_module(self.fn, kernel._kernel_context))
    return self.fn(*arguments)


def _polling(load_counter: Callable[[Any, int], int]) -> Callable[[Any, int], int]:
    """``load_counter``, which kernels ask until other blocks have come as far, once those have run."""

    def asked(counters: Any, i: int) -> int:
        thread: Any = greenlet.getcurrent()
        thread._manager._scheduler.poll()
        return load_counter(counters, i)

    return asked


def install() -> None:
    """Change Numba's simulator in this process. Harmless if done twice."""
    FakeCUDAShared.array = _shared_array
    FakeCUDAModule.shfl_xor_sync = _shfl_xor_sync
    BlockManager.run = _run_grid
    FakeCUDAKernel.__call__ = _called
    from kernelzoo.kernels.numba import simulated  # after the simulator has its shuffles

    if not hasattr(simulated.load_counter, "__wrapped__"):
        simulated.load_counter = functools.wraps(simulated.load_counter)(_polling(simulated.load_counter))
    kernelapi.threading = python_types.SimpleNamespace(current_thread=greenlet.getcurrent)
