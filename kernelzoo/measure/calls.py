"""The clock of calls as a user makes them: ``kernelzoo.get(backend).softmax(x, dim)``, or torch's function.

The time includes looking up the launch and allocating outputs. On a GPU, it excludes waiting for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch

from kernelzoo import operations, registry
from kernelzoo.calls import backend as backends
from kernelzoo.errors import ContractError
from kernelzoo.launch import Launch
from kernelzoo.measure.clocks import Clock, DeviceClock, InputChange, Turn, WallClock
from kernelzoo.measure.problems import Problem


class Call:
    """A user's call on one set of inputs and outputs. Only ``call`` is timed. Calling this also copies its results."""

    __slots__ = ("call", "outs")

    def __init__(self, call: Callable[[], Any], outs: Sequence[torch.Tensor]) -> None:
        self.call, self.outs = call, tuple(outs)

    def __call__(self) -> None:
        self.copy_result_to_outputs(self.call())

    def copy_result_to_outputs(self, result: Any) -> None:
        """Copy a call's result to the set's outputs. Raises ContractError if its shape or dtype is wrong."""
        made = result if isinstance(result, tuple) else (result,)
        for out, one in zip(self.outs, made, strict=True):
            if (one.shape, one.dtype) != (out.shape, out.dtype):
                raise ContractError(f"a call returned {one.dtype} of {tuple(one.shape)}", "wrong kind of result")
            out.copy_(one)


def make_user_call(
    one: registry.Implementation, problem: Problem, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]
) -> Call:
    """Return a user's call of an implementation. For the baseline, call torch's function if there is one."""
    named = {"variant": one.variant, **dict(problem.scalars)}
    axis = (problem.dim,) if problem.operation.by_rows else ()
    own = torch_function_name(problem.operation, one.id)
    if own:
        return Call(lambda: getattr(torch, own)(*inputs, *axis), outs)
    return Call(lambda: getattr(backends.get(one.backend), one.op)(*inputs, *axis, **named), outs)


def torch_function_name(operation: operations.Operation, id: str) -> str:
    """Return the name of torch's function if the id is the operation's baseline; "" otherwise, or if torch has none."""
    return operation.in_torch if id == registry.baseline(operation.name) else ""


class CallClock:
    """A clock of users' calls by ``time.perf_counter``. ``launch_clock`` times launches on the same device.

    On a GPU, the timed calls start on an idle device. They are too few to fill a stream's queue.
    """

    name = "call"

    def __init__(self, launch_clock: Clock, device: torch.device, op: str) -> None:
        self.launch_clock, self._device = launch_clock, device
        own = torch_function_name(operations.OPERATIONS[op], registry.baseline(op))
        self.detail = f"time.perf_counter around kernelzoo.get(BACKEND).{op}" + (f", or torch.{own} itself" * bool(own))
        self.detail += ", not waited for" * (device.type == "cuda")

    def prepare_turn(self, launches: Sequence[Launch], input_change: InputChange | None = None) -> Turn:
        calls = [launch for launch in launches if isinstance(launch, Call)]

        def turn(times: int) -> float:
            results = [None] * len(calls)
            self._wait()
            started = perf_counter()
            for place, call in enumerate(calls):
                results[place] = call.call()
            seconds = perf_counter() - started
            for call, result in zip(calls, results, strict=True):
                call.copy_result_to_outputs(result)
            self._wait()
            return seconds

        return turn

    def measure_submit_seconds(self, launches: Sequence[Launch]) -> float | None:
        return self.launch_clock.measure_submit_seconds(launches)

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def choose_clock(device: torch.device, timed: str, op: str) -> Clock | CallClock:
    """Return the clock of launches on a device; if ``timed`` is "call", the clock of users' calls."""
    clock = DeviceClock(device) if device.type == "cuda" else WallClock()
    return CallClock(clock, device, op) if timed == "call" else clock
