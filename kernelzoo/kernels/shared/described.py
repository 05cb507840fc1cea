"""What Triton is told while it compiles for a device that is described and not there; see :mod:`kernelzoo.inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
from triton.backends.compiler import GPUTarget

from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.shared.triton_needs import too_old

if _why := too_old(triton.__version__):
    raise ImportError(_why)  # as if it were not installed; see kernelzoo.inspect.ask


class DescribedDriver:
    """What Triton asks of ``triton.runtime.driver.active`` while it compiles a kernel, and what users' files do."""

    def __init__(self, device: Device) -> None:
        # Triton keeps its caches by device: one index to each architecture, which no device here has.
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
    """Within the context, Triton compiles kernels for that device."""
    try:
        before = triton.runtime.driver.active
    except RuntimeError:  # no device is here: Triton looks again when it is asked
        before = None
    triton.runtime.driver.set_active(DescribedDriver(device))
    try:
        yield
    finally:
        triton.runtime.driver.set_active(before)
