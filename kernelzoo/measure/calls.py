"""The clock of whole calls as a user makes them: ``kernelzoo.get(backend).softmax(x, dim)``, and torch's own.

A call looks up or makes the launch, and allocates its outputs. On a GPU only the host's time counts, without waiting.
On the host a call returns when it is done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kernelzoo import operations, registry
from kernelzoo.calls import backend as backends
from kernelzoo.errors import ContractError
from kernelzoo.measure.clocks import Clock, Sampler, WallClock

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch
    from kernelzoo.measure.input_mutation import Probe


class Call:
    """A whole call on one set. As a launch it delivers the results to the gate; when timed it does not."""

    __slots__ = ("call", "outs")

    def __init__(self, call: Callable[[], Any], outs: Sequence[torch.Tensor]) -> None:
        self.call, self.outs = call, tuple(outs)

    def __call__(self) -> None:
        self.deliver(self.call())

    def deliver(self, result: Any) -> None:
        """Copy a call's result to the set. Raises ContractError for another shape or dtype, which a copy would hide."""
        made = result if isinstance(result, tuple) else (result,)
        for out, one in zip(self.outs, made, strict=True):
            if (one.shape, one.dtype) != (out.shape, out.dtype):
                raise ContractError(f"a call returned {one.dtype} of {tuple(one.shape)}", "wrong kind of result")
            out.copy_(one)


@dataclass(frozen=True)
class Called(registry.Implementation):
    """An implementation that is called whole. The baseline is torch's function, if it has one."""

    @classmethod
    def of(cls, one: registry.Implementation) -> Called:
        return cls(one.backend, one.op, one.variant, one.summary, one.chooses)

    def launch(
        self,
        *inputs: torch.Tensor,
        dim: operations.Dims = -1,
        out: torch.Tensor | Sequence[torch.Tensor],
        **scalars: Any,
    ) -> Launch:
        import torch

        backend, op, named = self.backend, self.op, {"variant": self.variant, **scalars}
        axis = (dim,) if self.operation.by_rows else ()
        own = function_of(self.operation, self.id)

        def ours() -> Any:
            return getattr(backends.get(backend), op)(*inputs, *axis, **named)

        def torchs() -> Any:
            return getattr(torch, own)(*inputs, *axis)

        outs = (out,) if isinstance(out, torch.Tensor) else tuple(out)
        return Call(torchs if own else ours, outs)


def function_of(operation: operations.Operation, id: str) -> str:
    """The name of torch's function to call for an id; "" unless it is the baseline and torch has one."""
    return operation.in_torch if id == registry.baseline(operation.name) else ""


class CallClock(WallClock):
    """``time.perf_counter`` around whole calls; ``base`` is the same device's clock of launches.

    On a GPU a sample holds fewer calls than a stream can queue, and starts on an idle device. A result is dropped when
    the next call on the same inputs has made its own.
    """

    name = "call"
    _CALLS = 120  # most calls of a GPU sample: of up to eight kernels each, fewer than the 1024 that a stream queues
    _QUEUE = 20e-3  # most seconds of queued work

    def __init__(self, base: Clock, device: torch.device, op: str) -> None:
        super().__init__()
        self.base, self._device = base, device
        self.sets_bytes = base.sets_bytes
        self._gpu = device.type == "cuda"
        own = function_of(operations.OPERATIONS[op], registry.baseline(op))
        self.detail = f"time.perf_counter around kernelzoo.get(BACKEND).{op}" + (f", or torch.{own} itself" * bool(own))
        self.detail += ", not waited for" * self._gpu

    def prepare(self, launches: Sequence[Launch], probe: Probe | None = None) -> Sampler:
        calls = [launch for launch in launches if isinstance(launch, Call)]
        sets, results = len(calls), dict[int, Any]()
        for call in calls:
            call()
        count = self._count(calls)
        probe = probe if count >= 2 * sets else None

        def turn() -> float:
            return self._turn(calls, count, results, probe)

        def upcoming() -> list[int]:
            return [(self._next + i) % sets for i in range(max(0, count - sets), count)]

        def deliver() -> None:
            for place, result in results.items():
                calls[place].deliver(result)
            results.clear()

        return Sampler(turn, count, upcoming, probe, deliver)

    def _count(self, calls: Sequence[Call]) -> int:
        """Calls in one sample: each set at most once, or every set at least twice (see WallClock)."""
        self._wait()
        started = perf_counter()
        for call in calls[:2]:
            call.call()
        self._wait()
        once, sets = max((perf_counter() - started) / len(calls[:2]), 1e-7), len(calls)
        if not self._gpu:
            count = max(1, int(self._RUN / once))
            return count if count <= sets else max(count, 2 * sets)
        count = max(5, min(self._CALLS, int(self._QUEUE / once)))
        return count if count <= sets or count >= 2 * sets else sets

    def _turn(self, calls: Sequence[Call], count: int, results: dict[int, Any], probe: Probe | None) -> float:
        sets, first, probed = len(calls), self._next, count
        if probe:
            probed = random.SystemRandom().randrange(count)
            first = (probe.number - probed) % sets
        chosen = [(place % sets, calls[place % sets].call) for place in range(first, first + count)]
        self._next = (first + count) % sets
        if count <= sets:  # warms the code up, and replaces the last call
            calls[first - 1].call()
        seconds = _seconds(chosen[:probed], results)
        if probe:
            probe.before()
            seconds += _seconds(chosen[probed : probed + 1], results)
            calls[probe.number].deliver(results[probe.number])
            probe.after()
            seconds += _seconds(chosen[probed + 1 :], results)
        return seconds / count

    def submit(self, launches: Sequence[Launch]) -> float | None:
        return self.base.submit(launches)

    def settle(self, hot: Sequence[torch.Tensor], *, writes: bool) -> None:
        """Empty the queue. The cache does not matter to the time of submission."""
        if self._gpu:
            self._wait()
        else:
            self.base.settle(hot, writes=writes)

    def _wait(self) -> None:
        import torch

        if self._gpu:
            torch.cuda.synchronize(self._device)


def _seconds(chosen: Sequence[tuple[int, Callable[[], Any]]], results: dict[int, Any]) -> float:
    started = perf_counter()
    for place, call in chosen:
        results[place] = call()
    return perf_counter() - started
