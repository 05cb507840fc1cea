"""What this device can do at best, measured in the same run as what is compared with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelzoo.measure.clocks import DeviceClock

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Ceilings:
    """Bytes per second of device memory, and the seconds that the smallest kernel in a CUDA graph takes."""

    copy: float
    read: float
    floor: float

    def bandwidth(self, op: str) -> float:
        """The ceiling that bounds an operation: reading and writing alike, or (almost) reading alone."""
        return self.read if op == "min" else self.copy

    def limit(self, op: str, bytes_moved: int) -> float:
        """Seconds that the best possible implementation takes: launch floor + bytes / ceiling."""
        return self.floor + bytes_moved / self.bandwidth(op)


def ceilings(device: torch.device) -> Ceilings:
    """Measure the ceilings of a GPU: the best of several kernels that only copy, and of several that only read.

    A contiguous ``copy_`` is no such kernel: in a CUDA graph it runs on the copy engine, at two thirds of the speed.
    """
    import torch

    clock = DeviceClock(device)
    count = 2**28  # 1 GiB of float32: 20 times the L2, and a launch's floor is below 1 % of it
    x = torch.randn(count, device=device)
    y = torch.empty_like(x)
    smallest = torch.zeros(1, device=device)
    square = x.view(2**14, -1)
    row = torch.empty(2**14, device=device)
    copies = (
        lambda: torch.neg(x, out=y),
        lambda: torch.mul(x, 2.0, out=y),
        lambda: torch.abs(x.view(torch.int32), out=y.view(torch.int32)),
    )
    reads = (lambda: torch.sum(x), lambda: torch.amin(square, 1, out=row), lambda: torch.sum(square, 1, out=row))

    def best(launch: object) -> float:
        sampler = clock.prepare([launch] * 2)  # type: ignore[list-item]  # what a launch returns is dropped
        return min(sampler() for _ in range(5))

    bytes_read = count * x.element_size()
    return Ceilings(
        copy=2 * bytes_read / min(map(best, copies)),
        read=bytes_read / min(map(best, reads)),
        floor=best(lambda: torch.neg(smallest, out=smallest)),
    )
