"""What this device can do at best, measured in the same run as what is compared with it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from kernelzoo import operations, registry
from kernelzoo.errors import ContractError, KernelZooError
from kernelzoo.launch import Launch, void
from kernelzoo.measure.buffers import Set
from kernelzoo.measure.clocks import DeviceClock, WallClock

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
        return self.copy if operations.OPERATIONS[op].writes_all else self.read

    def limit(self, op: str, bytes_moved: int) -> float:
        """Seconds that the best possible implementation takes: launch floor + bytes / ceiling."""
        return self.floor + bytes_moved / self.bandwidth(op)


def ceilings(device: torch.device) -> Ceilings:
    """Measure the ceilings of a GPU: the best of several kernels that only copy, and of several that only read.

    A contiguous ``copy_`` is no such kernel: in a CUDA graph it runs on the copy engine, at two thirds of the speed.
    Among the readers is each operation that reduces, by each backend that a call tries, where it passes for right: no
    plain sum of torch's reads as fast as they do, and a ceiling that a kernel passes through is none. So it is with
    those that copy, and each operation that writes all, and with the floor: a backend may have a way to launch that
    takes less than torch's smallest kernel.
    """
    import torch

    clock = DeviceClock(device)
    ours = [operations.OPERATIONS[name] for name in operations.MAPPED]
    copying = [op for op in ours if op.writes_all]
    reading = [op for op in ours if op.reduces]
    count = 2**28  # 1 GiB of float32: 20 times the L2, and a launch's floor is below 1 % of it
    with torch.cuda.device(device):
        x = torch.randn(count, device=device)
        y = torch.empty_like(x)
        smallest, shortest = torch.zeros(1, device=device), torch.zeros(1, 32, device=device)
        square = x.view(2**14, -1)
        row = torch.empty(2**14, device=device)
        copies = (
            lambda: torch.neg(x, out=y),
            lambda: torch.mul(x, 2.0, out=y),
            lambda: torch.abs(x.view(torch.int32), out=y.view(torch.int32)),
            *_choices(copying, square, y.view(2**14, -1)),
        )
        reads = (
            lambda: torch.sum(x),
            lambda: torch.amin(square, 1, out=row),
            lambda: torch.sum(square, 1, out=row),
            *_choices(reading, square, row),
        )

        def best(launch: Callable[[], object]) -> float:
            try:
                sampler = clock.prepare([lambda: void(launch())] * 2)
                return min(sampler() for _ in range(5))
            except ContractError:  # what is no kernel in a graph is no ceiling
                return math.inf

        bytes_read = count * x.element_size()
        return Ceilings(
            copy=2 * bytes_read / min(map(best, copies)),
            read=bytes_read / min(map(best, reads)),
            floor=min(map(best, (lambda: torch.neg(smallest, out=smallest), *_choices(reading, shortest, smallest)))),
        )


_FASTER = 4.0
"""A kernel on the host may be so many times faster than a copy of memory: one that only reads moves two thirds of the
bytes, and a processor's own cache holds some of the data."""


def beyond_memory(bytes_moved: int, seconds: float, volume: int) -> str:
    """Why so many bytes can't have been moved in so many seconds, on the host, from data of a volume of bytes; or "".

    They are compared with a copy that is measured now, by all processors that there are and by one, in turns: where
    other programs run, all wait for the one that is taken away. A busy host is slow at times: it is measured again
    until it allows the time, at most 50 times.
    """
    import torch

    half = max(2**16, min(volume, WallClock.sets_bytes)) // 2
    x = torch.ones(half, dtype=torch.uint8)
    y = torch.zeros_like(x)
    pieces = list(zip(torch.split(x, 2**20), torch.split(y, 2**20), strict=True))
    threads, best = torch.get_num_threads(), math.inf
    processors = len(os.sched_getaffinity(0))
    try:
        for attempt in range(50):
            torch.set_num_threads(1 if attempt % 2 else processors)
            started = perf_counter()
            for source, target in pieces:
                target.copy_(source)
            best = min(best, perf_counter() - started)
            if bytes_moved / seconds <= _FASTER * 2 * half / best:
                return ""
    finally:
        torch.set_num_threads(threads)
    return (
        f"{seconds * 1e6:.2f} us is {bytes_moved / seconds / (2 * half / best):.0f} times as fast as this host copies"
        f" memory ({2 * half / best / 1e9:.0f} GB/s): an error, and no result"
    )


def has_copy(sets: Sequence[Set]) -> bool:
    """Whether a plain copy does what must be done: one input is read, and as many bytes are written."""
    inputs, outs = sets[0]
    return len(inputs) == len(outs) == 1 and inputs[0].nbytes == outs[0].nbytes


def copies(sets: Sequence[Set]) -> list[Launch]:
    """A launch for each of these inputs and outputs that does no more than to read the one and write the other.

    By a kernel of torch's that copies words of 4 bytes, or of 2 where there is an odd number of those; ``copy_`` would
    be none (see above). What an operation takes beyond this is its own; what this takes beyond the limit, the device's.
    """
    import torch

    def words(x: torch.Tensor) -> torch.Tensor:
        flat = x.view(-1)
        return flat.view(torch.int32 if x.nbytes % 4 == 0 else torch.int16)

    def copy(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.bitwise_or(x, 0, out=out)

    return [partial(copy, words(x), words(out)) for (x,), (out,) in sets]


def _choices(operations: Sequence[operations.Operation], x: torch.Tensor, out: torch.Tensor) -> Iterator[Launch]:
    """The choice of each backend that a call tries on a GPU, for operations on each row, where it is right.

    The others' imports would take a process ten seconds more.
    """
    for implementation in (i for op in operations for i in registry.implementations(op=op.name)):
        if implementation.variant != "auto" or implementation.backend not in registry.PREFERENCE["cuda"]:
            continue
        try:
            if registry.language(implementation.backend).emulator:
                continue
            launch = implementation.launch(x, dim=-1, out=out)
            out.fill_(math.nan)  # of the one before it, which was right
            launch()
            implementation.operation.assert_close(out, x)
        except (KernelZooError, AssertionError, RuntimeError):  # it can't run, is wrong, or broke: no ceiling
            continue
        yield launch
