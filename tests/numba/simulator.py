"""Numba's CUDA simulator with warp shuffles, of which it has none, and with shared arrays that are one for all threads:
``install()`` adds what kernelzoo's kernels use.

The simulator runs each thread of a block as a Python thread. A shuffle is then an exchange: every lane of the warp puts
its value down, waits for the others, takes the one it wants, and waits again so that the place is free. Only whole
warps are simulated: a mask that leaves lanes out is refused, as is a lane that never comes (after a minute).

The simulator's own ``cuda.shared.array`` looks an array up and makes it if it is not there, with nothing in between to
keep two threads from making one each: now and then a thread works in an array of its own. Here they are made under a
lock, and full of ones, which are NaN in every floating-point type, so that what is read before it is written shows.

It also asks its threads again and again whether all of them wait at the barrier. Here the last one to come lets the
others go, which takes half the time.
"""

from __future__ import annotations

import sys
import threading
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


_make_shared, _dynamic_array = FakeCUDAShared.__init__, FakeCUDAShared.array


def _shared(self: FakeCUDAShared, dynshared_size: int) -> None:
    _make_shared(self, dynshared_size)
    self._dynshared.fill(-1)


def _shared_array(self: FakeCUDAShared, shape: int, dtype: Any, alignment: int | None = None) -> Any:
    """The array of the line that asks, one for all threads of a launch; of dynamic shared memory for the shape 0."""
    if shape == 0:
        return _dynamic_array(self, shape, dtype, alignment)
    caller = sys._getframe(1)
    place = caller.f_code.co_filename, caller.f_lineno
    with _lock:
        if place not in self._allocations:
            kind = np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)
            self._allocations[place] = np.full(shape * kind.itemsize, 0xFF, np.uint8).view(kind)
    return self._allocations[place]


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


def _run_block(self: BlockManager, grid_point: Any, *arguments: Any) -> None:
    """Every thread of a block, to its end. Raises the first error of any."""
    barrier = self.__dict__["_barrier"] = _Barrier(int(np.prod(self._block_dim)))

    def target() -> None:
        error = None
        try:
            self._f(*arguments)
        except BaseException as raised:
            error = raised
        finally:
            barrier.leave(error)

    threads = [BlockThread(target, self, grid_point, point, self._debug) for point in np.ndindex(*self._block_dim)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if barrier.error is not None:
        raise barrier.error


def _syncthreads(self: BlockThread) -> None:
    self._manager._barrier.wait()


def install() -> None:
    """Give the simulator's ``cuda`` the shuffles, the barrier of a warp, and shared arrays. Harmless if done twice."""
    FakeCUDAShared.__init__, FakeCUDAShared.array = _shared, _shared_array
    FakeCUDAModule.shfl_xor_sync = _shfl_xor_sync
    FakeCUDAModule.syncwarp = _syncwarp
    BlockManager.run, BlockThread.syncthreads = _run_block, _syncthreads


__all__ = ["install"]
