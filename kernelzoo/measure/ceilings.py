"""The speed limits of the device, measured in the same run as the results."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import torch

from kernelzoo import operations, registry
from kernelzoo.errors import ContractError, KernelZooError
from kernelzoo.launch import Launch, void
from kernelzoo.measure.clocks import DeviceClock
from kernelzoo.measure.judge.memory import Set, TensorSets


@dataclass(frozen=True)
class Ceilings:
    """A device's limits. ``copy``, ``read``: bytes per second. ``floor``: seconds of the smallest kernel in a graph."""

    copy: float
    read: float
    floor: float

    def bandwidth(self, op: str) -> float:
        """Return an operation's limiting bandwidth: of a copy if it writes as much as it reads, else of a read."""
        return self.copy if operations.OPERATIONS[op].writes_as_much_as_reads else self.read

    def shortest_seconds(self, op: str, bytes_moved: int) -> float:
        """Return the shortest possible time in seconds: launch floor + bytes / bandwidth."""
        return self.floor + bytes_moved / self.bandwidth(op)


_ENOUGH = 2
"""The number of backends whose kernels are run to measure the memory bandwidth."""


def ceilings(device: torch.device) -> Ceilings:
    """Measure a GPU's ceilings: the best times of several kernels that copy, only read, or do nothing.

    Contiguous ``copy_`` is not used: a CUDA graph runs it on the copy engine, at two thirds of the speed. Kernels of
    the two most preferred backends are included if their results are right, because torch's sums read more slowly.
    """
    clock = DeviceClock(device)
    ours = [operations.OPERATIONS[name] for name in operations.MAPPED]
    copying = [op for op in ours if op.writes_as_much_as_reads]
    reading = [op for op in ours if op.reduces]
    count = 2**28  # 1 GiB of float32: 20 times the L2, and the launch floor is below 1 % of it
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
            *_find_ceiling_launches(copying, square, y.view(2**14, -1)),
        )
        reads = (
            lambda: torch.sum(x),
            lambda: torch.amin(square, 1, out=row),
            lambda: torch.sum(square, 1, out=row),
            *_find_ceiling_launches(reading, square, row),
        )

        def best(launch: Callable[[], object]) -> float:
            try:
                launch()
                turn = clock.prepare_turn([lambda: void(launch())] * 2)
                return min(turn(1) for _ in range(5)) / 2
            except ContractError:  # no kernel in a graph
                return math.inf

        def repeated(launch: Callable[[], object]) -> float:
            return best(lambda: [launch() for _ in range(1000)]) / 1000

        bytes_read = count * x.element_size()
        empty = (lambda: torch.neg(smallest, out=smallest), *_find_ceiling_launches(reading, shortest, smallest))
        return Ceilings(
            copy=2 * bytes_read / min(map(best, copies)),
            read=bytes_read / min(map(best, reads)),
            floor=min(map(repeated, empty)),
        )


HOST_BYTES = 128 * 2**20
"""A number of bytes that exceeds the last-level cache of a desktop processor."""

_FASTER = 4.0
"""The highest plausible multiple of the host's copy bandwidth. A kernel may only read, or its data may be cached."""


def find_impossible_bandwidth(bytes_moved: int, seconds: float, volume: int) -> str:
    """Return why the host can't move so many bytes in ``seconds``; "" if it can.

    The bound is _FASTER times the best bandwidth of up to 50 copies now, on all processors or on one.
    ``volume``: the bytes of all sets. Each of these copies moves at most ``volume`` bytes.
    """
    half = max(2**16, min(volume, HOST_BYTES)) // 2
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
        f" memory ({2 * half / best / 1e9:.0f} GB/s): a measurement error"
    )


def moves_like_copy(sets: TensorSets) -> bool:
    """Whether the operation moves as many bytes as a copy: it has one input, and one output of equal size."""
    inputs, outs = sets[0]
    return len(inputs) == len(outs) == 1 and inputs[0].nbytes == outs[0].nbytes


def make_copy_launches(sets: Sequence[Set]) -> list[Launch]:
    """Return one launch per set that copies its input to its output. ``copy_`` would not use a kernel."""

    def words(x: torch.Tensor) -> torch.Tensor:
        flat = x.view(-1)
        return flat.view(torch.int32 if x.nbytes % 4 == 0 else torch.int16)

    def copy(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.bitwise_or(x, 0, out=out)

    return [partial(copy, words(x), words(out)) for (x,), (out,) in sets]


def _find_ceiling_launches(ops: Sequence[operations.Operation], x: torch.Tensor, out: torch.Tensor) -> Iterator[Launch]:
    """Yield launches to measure bandwidth. Each operation uses its two most preferred backends with right results."""
    ids = [f"{backend}/{op.name}/auto" for op in ops for backend in registry.PREFERENCE["cuda"]]
    made = Counter[str]()
    for implementation in map(registry.implementation, ids):
        if made[implementation.op] == _ENOUGH:
            continue
        try:
            if registry.language(implementation.backend).emulator:
                continue
            launch = implementation.launch(x, dim=-1, out=out)
            out.fill_(math.nan)  # overwrites the previous, right result
            launch()
            implementation.operation.assert_close(out, x)
        except (KernelZooError, AssertionError, RuntimeError):  # unavailable, wrong or broken: no ceiling
            continue
        made[implementation.op] += 1
        yield launch
