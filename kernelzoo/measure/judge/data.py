"""The data of a race: its sets, and the state of the caches before a turn."""

from __future__ import annotations

import ctypes
import secrets
from time import perf_counter

import torch

from kernelzoo.device import free_host_bytes, make_host_memory_error
from kernelzoo.measure.ceilings import HOST_BYTES, moves_like_copy
from kernelzoo.measure.judge.gate import Gate
from kernelzoo.measure.judge.memory import TensorSets
from kernelzoo.measure.measurement import Cache
from kernelzoo.measure.problems import Problem

_MOST_SETS, _CHECKED = 512, 8
"""The most sets of a race, and the number of sets in a race without rounds."""

_SHORTEST = {"cuda": (1.2e-6, 6e12), "cpu": (1e-6, 1e11)}
"""The least seconds of a launch, and the most bytes per second. They bound the number of sets that a turn needs."""

_NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED


class RaceData:
    """The sets of a race, and the state of the caches before a turn."""

    def __init__(self, problem: Problem, device: torch.device, cache: Cache, *, shared: bool) -> None:
        self.problem, self.device, self.cache, self.shared = problem, device, cache, shared
        self.is_gpu = device.type == "cuda"
        self.cached = torch.cuda.get_device_properties(device).L2_cache_size if self.is_gpu else HOST_BYTES // 4
        self.sets: TensorSets
        self.gate: Gate
        self._scratch: torch.Tensor | None = None
        self._mark = torch.zeros(1, device=device)
        keeps = self.is_gpu and torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)
        self._reset = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache if keeps else None

    def allocate_sets(self, turn_seconds: float) -> None:
        """Allocate sets of data for turns of this length; for 0, a few sets. Raises NoRoomError and torch's errors."""
        one = max(1, self.problem.bytes)
        least, fastest = _SHORTEST[self.device.type]
        each = least + one / fastest
        want = self.cached // 2 // one if self.cache == "hot" else max(4 * self.cached // one, int(turn_seconds / each))
        want = want if turn_seconds else _CHECKED
        room = torch.cuda.mem_get_info(self.device)[1] // 4 if self.is_gpu else free_host_bytes() // 4
        count = max(2, min(want + 1, room // one, _MOST_SETS))
        if not self.is_gpu and one * count > free_host_bytes():
            raise make_host_memory_error("the race", one * count)
        self.sets = TensorSets(self.problem, count, self.device, shared=self.shared)
        self.gate = Gate(self.sets, secrets.randbits(48))

    def prepare_caches(self) -> None:
        """Reset cache lines that kernels made persistent. Before a cold turn, fill the cache with other data."""
        if self._reset is not None:
            status = self._reset()
            if status == _NOT_SUPPORTED:  # for example on part of a device (MIG), whose cache keeps nothing on request
                self._reset = None
            elif status:
                raise RuntimeError(f"the L2 cache can't be reset: CUDA error {status}")
        if self.cache == "cold":
            if self._scratch is None:
                self._scratch = torch.zeros(self.cached // 2, dtype=torch.float32, device=self.device)
            half = self._scratch.numel() // 2
            if moves_like_copy(self.sets):  # the operation writes as much as it reads, so half of this is written
                torch.add(self._scratch[:half], 0, out=self._scratch[half : 2 * half])
            else:
                self._scratch.sum()
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def time_one_element_launch(self) -> float:
        """Return the seconds until the device has run a one-element kernel, including the wait for other processes."""
        began = perf_counter()
        self._mark.zero_()
        if self.is_gpu:
            torch.cuda.synchronize(self.device)
        return perf_counter() - began

    def close(self) -> None:
        if hasattr(self, "sets"):
            self.sets.close()
