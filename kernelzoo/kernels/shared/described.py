"""A stand-in for Triton's driver, to compile for a simulated device; see :mod:`kernelzoo.inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
from triton.backends.compiler import GPUTarget

from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.shared.triton_needs import why_too_old

if _why := why_too_old(triton.__version__):
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask_child


class SimulatedDriver:
    """A stand-in for ``triton.runtime.driver.active``, with the methods that Triton and users' files call."""

    def __init__(self, device: Device) -> None:
        # Triton caches by device index, so each architecture has an index that no real device has.
        self._index = 1000 + list(ARCHITECTURES).index(device.arch)
        self._target = GPUTarget(device.vendor, device.capability or device.arch, device.warp_size)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return self._index

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)


@contextmanager
def target(device: Device) -> Iterator[None]:
    """A context in which Triton compiles kernels for that device."""
    try:
        before = triton.runtime.driver.active
    except RuntimeError:  # there is no device: Triton looks again at its next use
        before = None
    triton.runtime.driver.set_active(SimulatedDriver(device))
    try:
        yield
    finally:
        triton.runtime.driver.set_active(before)
