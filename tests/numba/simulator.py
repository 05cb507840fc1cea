"""Numba's CUDA simulator with warp shuffles and clusters, of which it has none, and with shared arrays that are one for
all threads of a block: ``install()`` adds what kernelzoo's kernels use.

The simulator runs each thread of a block as a Python thread. A shuffle is then an exchange: every lane of the warp puts
its value down, waits for the others, takes the one it wants, and waits again so that the place is free. Only whole
warps are simulated: a mask that leaves lanes out is refused, as is a lane that never comes (after a minute).

The simulator's own ``cuda.shared.array`` looks an array up and makes it if it is not there, with nothing in between to
keep two threads from making one each: now and then a thread works in an array of its own. Here they are made under a
lock, and full of ones, which are NaN in every floating-point type, so that what is read before it is written shows.

It also asks its threads again and again whether all of them wait at the barrier. Here the last one to come lets the
others go, which takes half the time.

Blocks run one after the other; those of a cluster at once, where a test says how many there are to each
(``clusters_of``). :class:`Cluster` has the words of :mod:`kernelzoo.kernels.numba.cluster`, and holds kernels to what
would hang or be lost on a GPU: a block waits for as many bytes as others send it, and is there until they have come.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.np import numpy_support
from numba.cuda.simulator.kernel import BlockManager, BlockThread
from numba.cuda.simulator.kernelapi import FakeCUDAModule, FakeCUDAShared

WARP = 32
PATIENCE = 60.0  # seconds until a lane that does not come is given up

_lock = threading.Lock()


class _Warp:
    """The lanes of one warp of the running block, and the place where they exchange values."""

    def __init__(self, lanes: int) -> None:
        self.barrier = threading.Barrier(lanes, timeout=PATIENCE)
        self.values: list[Any] = [None] * lanes

    def exchange(self, lane: int, value: Any, source: int) -> Any:
        self.values[lane] = value
        self.barrier.wait()
        taken = self.values[source] if source < len(self.values) else value
        self.barrier.wait()
        return taken


def _warp_of_this_thread() -> tuple[_Warp, int]:
    thread: Any = threading.current_thread()
    block = thread._manager
    x, y, z = block._block_dim
    index, lane = divmod(thread.thread_id, WARP)
    with _lock:
        warps = block.__dict__.setdefault("_warps", {})
        if index not in warps:
            warps[index] = _Warp(min(WARP, x * y * z - index * WARP))
    return warps[index], lane


def _whole(mask: int) -> None:
    if mask != 0xFFFFFFFF:
        raise NotImplementedError(f"only whole warps are simulated, got the mask {mask:#x}")


def _shfl_xor_sync(self: FakeCUDAModule, mask: int, value: Any, distance: int) -> Any:
    _whole(mask)
    warp, lane = _warp_of_this_thread()
    return warp.exchange(lane, value, lane ^ distance)


def _syncwarp(self: FakeCUDAModule, mask: int) -> None:
    _whole(mask)
    warp, _ = _warp_of_this_thread()
    warp.barrier.wait()


def _shared_array(self: FakeCUDAShared, shape: int, dtype: Any, alignment: int | None = None) -> Any:
    """The array of the line that asks, one for all threads of a block; of dynamic shared memory for the shape 0."""
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno) if shape else "dynamic"
    kind = np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)
    count = shape or self._dynshared_size // kind.itemsize
    thread: Any = threading.current_thread()
    with _lock:
        arrays = thread._manager.__dict__.setdefault("_arrays", {})
        if place not in arrays:
            arrays[place] = np.full(count * kind.itemsize, 0xFF, np.uint8).view(kind)
    return arrays[place]


class _Barrier:
    """Of a block: who lives, who waits, and what ended the block before its time."""

    def __init__(self, threads: int) -> None:
        self.lock = threading.Lock()
        self.living = threads
        self.waiting: list[threading.Event] = []
        self.error: BaseException | None = None

    def wait(self) -> None:
        gone = threading.Event()
        with self.lock:
            self.waiting.append(gone)
            self._release_if_all()
        gone.wait()
        if self.error is not None:
            raise RuntimeError("another thread of the block failed")

    def leave(self, error: BaseException | None) -> None:
        with self.lock:
            self.living -= 1
            self.error = self.error or error
            self._release_if_all()

    def _release_if_all(self) -> None:
        if len(self.waiting) == self.living or self.error is not None:
            for event in self.waiting:
                event.set()
            self.waiting = []


class Cluster:
    """Blocks that run at once, and what they have sent each other."""

    blocks = 1
    """To a cluster, of all that are launched now; ``clusters_of`` says how many."""

    def __init__(self, managers: list[BlockManager]) -> None:
        self.managers = managers
        self.threads = sum(int(np.prod(manager._block_dim)) for manager in managers)
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        self.arrived = 0
        self.expected: list[int | None] = [None] * len(managers)
        self.received = [0] * len(managers)

    def until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: condition() or self.error is not None, PATIENCE), "waits for ever"
            if not condition():
                raise RuntimeError("another thread of the cluster failed")

    def fail(self, error: BaseException) -> None:
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    @staticmethod
    def here() -> tuple[Cluster, int, Any]:
        thread: Any = threading.current_thread()
        cluster = thread._manager._cluster
        return cluster, cluster.managers.index(thread._manager), thread

    @staticmethod
    def cluster_arrive(barrier: np.ndarray, count: int) -> None:
        self, rank, _ = Cluster.here()
        with self.changed:
            assert self.expected[rank] in (None, int(count)), "threads of a block expect the same"
            self.expected[rank] = int(count)
            self.arrived += 1
            if self.arrived == self.threads:
                self.changed.notify_all()

    @staticmethod
    def cluster_wait() -> None:
        self, _, _ = Cluster.here()
        self.until(lambda: self.arrived == self.threads)

    @staticmethod
    def send(array: np.ndarray, i: int, values: tuple[Any, ...], barrier: np.ndarray, rank: int) -> None:
        self, _, thread = Cluster.here()
        (place,) = (place for place, own in thread._manager._arrays.items() if own is array)
        with self.changed:
            assert self.managers[rank]._barrier.living, "sent to a block that has ended"
            self.managers[rank]._arrays[place][i : i + len(values)] = values
            self.received[rank] += len(values) * array.itemsize
            assert self.received[rank] <= (self.expected[rank] or 0), "more is sent than is expected"
            if self.received[rank] == self.expected[rank]:
                self.changed.notify_all()

    @staticmethod
    def wait_for(barrier: np.ndarray) -> None:
        self, rank, _ = Cluster.here()
        self.until(lambda: self.received[rank] == self.expected[rank])


@contextmanager
def clusters_of(blocks: int) -> Iterator[None]:
    """Of as many blocks as the launch itself says, which the simulator isn't told."""
    Cluster.blocks = blocks
    try:
        yield
    finally:
        Cluster.blocks = 1


def _run_block(self: BlockManager, grid_point: Any, *arguments: Any) -> None:
    """Every thread of a block, or of all blocks of a cluster with the first of them, to its end. Raises the first error
    of any."""
    first, *rest = grid_point
    if first % Cluster.blocks:
        return
    others = [BlockManager(self._f, self._grid_dim, self._block_dim, self._debug) for _ in range(1, Cluster.blocks)]
    cluster = Cluster([self, *others])
    threads = []
    for rank, manager in enumerate(cluster.managers):
        manager.__dict__["_cluster"] = cluster
        barrier = manager.__dict__["_barrier"] = _Barrier(int(np.prod(self._block_dim)))

        def target(barrier: _Barrier = barrier) -> None:
            error = None
            try:
                self._f(*arguments)
            except BaseException as raised:
                error = raised
                cluster.fail(error)
            finally:
                barrier.leave(error)

        points = np.ndindex(*self._block_dim)
        threads += [BlockThread(target, manager, (first + rank, *rest), point, self._debug) for point in points]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if cluster.error is not None:
        raise cluster.error
    for received, expected in zip(cluster.received, cluster.expected, strict=True):
        assert received in (0, expected), "less is sent than is expected"


def _syncthreads(self: BlockThread) -> None:
    self._manager._barrier.wait()


def install() -> None:
    """Give the simulator's ``cuda`` the shuffles, the barrier of a warp, and shared arrays. Harmless if done twice."""
    FakeCUDAShared.array = _shared_array
    FakeCUDAModule.shfl_xor_sync = _shfl_xor_sync
    FakeCUDAModule.syncwarp = _syncwarp
    BlockManager.run, BlockThread.syncthreads = _run_block, _syncthreads


__all__ = ["Cluster", "clusters_of", "install"]
