"""Warp shuffles for Numba's CUDA simulator, which has none: ``install()`` adds what kernelzoo's kernels use.

The simulator runs each thread of a block as a Python thread. A shuffle is then an exchange: every lane of the warp puts
its value down, waits for the others, takes the one it wants, and waits again so that the place is free. Only whole
warps are simulated: a mask that leaves lanes out is refused, as is a lane that never comes (after a minute).
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from numba.cuda.simulator.kernelapi import FakeCUDAModule

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


def install() -> None:
    """Give the simulator's ``cuda`` the shuffles and the barrier of a warp. Harmless if done twice."""
    FakeCUDAModule.shfl_xor_sync = _shfl_xor_sync
    FakeCUDAModule.syncwarp = _syncwarp
    # The simulator polls its threads without a pause. Taking the interpreter from it after 0.1 ms and not 5 makes
    # blocks of some hundred threads run in half the time.
    sys.setswitchinterval(1e-4)


__all__ = ["install"]
