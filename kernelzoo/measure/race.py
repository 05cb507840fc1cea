"""The race: several implementations of one problem, checked, then timed in turns on the same inputs."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelzoo import registry
from kernelzoo.errors import KernelZooError
from kernelzoo.measure.clocks import Clock, clock_for
from kernelzoo.measure.problems import Problem

if TYPE_CHECKING:
    import torch


@dataclass
class Measurement:
    """One implementation on one problem: samples, or the reason why there are none."""

    implementation: registry.Implementation
    problem: Problem
    clock: str
    clock_detail: str
    samples: list[float] = field(default_factory=list)
    """Seconds per launch, one per round."""
    submit: float | None = None
    """Seconds of the host's time to submit one bound launch; None on the host, where the launch is that time."""
    first_call: float | None = None
    """Seconds to bind and to run the first time, compilation included unless a cache held it."""
    refused: str = ""
    """Why it can't run this problem or can't run here: nothing is wrong, there is just no result."""
    wrong: str = ""
    """What the check before the timing found, or what was raised; a wrong implementation is never timed."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def gb_per_s(self) -> float:
        """Bytes that must be moved, per second, in units of 1e9."""
        return self.bytes / self.median / 1e9

    @property
    def bytes(self) -> int:
        x_shape, op = self.problem.shape, self.problem.operation
        return op.contiguous_bytes(x_shape, self.problem.dtype, self.problem.dim)


def race(
    problem: Problem, implementations: Sequence[registry.Implementation], device: torch.device, *, rounds: int = 15
) -> dict[str, Measurement]:
    """Measure implementations of one problem on one device; the result has every id, in the order given.

    Inputs are drawn anew, several sets of them, so that a run through the sets finds none of its data in the cache.
    Each implementation is bound to each set, and checked on the first and the last against the reference, with the
    outputs poisoned first and the inputs compared after. Those that pass then take turns, in an order shuffled anew
    each round, and each turn gives one sample. At the end the very thing that was timed, a CUDA graph say, is checked.
    """
    import torch

    clock = clock_for(device)
    results = {i.id: Measurement(i, problem, clock.name, clock.detail) for i in implementations}
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        sets = _sets(problem, device, clock)
        samplers: dict[str, Callable[[], float]] = {}
        for measurement in results.values():
            try:
                samplers[measurement.implementation.id] = _admit(measurement, sets, clock)
            except KernelZooError as refusal:
                measurement.refused = str(refusal)
            except AssertionError as error:
                measurement.wrong = str(error)
            except torch.OutOfMemoryError as error:
                measurement.refused = f"out of memory: {error}"
            except Exception as error:  # whatever else a kernel does, it costs its own row and no other
                measurement.wrong = f"raised {type(error).__name__}: {error}"
        order = list(samplers)
        for _ in range(rounds):
            random.shuffle(order)
            for id in order:
                results[id].samples.append(samplers[id]())
        for id in order:
            _check_again(results[id], sets, samplers[id])
    return results


Set = tuple["torch.Tensor", "torch.Tensor"]


def _sets(problem: Problem, device: torch.device, clock: Clock) -> list[Set]:
    """Inputs and outputs to rotate through: together past the cache, at least two, and no more than 2048."""
    import torch

    generator = torch.Generator(device).manual_seed(random.getrandbits(48))
    one = problem.operation.contiguous_bytes(problem.shape, problem.dtype, problem.dim)
    count = min(max(2, -(-clock.sets_bytes // one)), 2048)
    dims = problem.operation.check(
        torch.empty(problem.shape, dtype=getattr(torch, problem.dtype), device="meta"), problem.dim
    )
    inputs = [problem.input(generator) for _ in range(count)]
    return [(x, problem.operation.allocate(x, dims, False)) for x in inputs]


def _admit(measurement: Measurement, sets: Sequence[Set], clock: Clock) -> Callable[[], float]:
    """Bind, check, warm up and capture one implementation. Raises AssertionError if it is wrong."""
    implementation, problem = measurement.implementation, measurement.problem
    backend = registry.get(implementation.backend)
    if backend.emulator:
        raise KernelZooError(f"{backend.emulator} is running, whose time says nothing about a device's")
    started = time.perf_counter()
    launches = [implementation.launch(sets[0][0], dim=problem.dim, out=sets[0][1])]
    launches[0]()
    _wait(sets[0][0])
    measurement.first_call = time.perf_counter() - started
    launches += [implementation.launch(x, dim=problem.dim, out=out) for x, out in sets[1:]]
    for (x, out), launch in {0: (sets[0], launches[0]), -1: (sets[-1], launches[-1])}.values():
        before = x.clone()
        out.fill_(-7)  # no softmax holds it, and no minimum of these inputs does everywhere
        launch()
        problem.operation.assert_close(out, x, problem.dim)
        if not bool((x == before).all()):
            raise AssertionError("the input was changed")
    measurement.submit = clock.submit(launches)
    return clock.prepare(launches)


def _check_again(measurement: Measurement, sets: Sequence[Set], sampler: Callable[[], float]) -> None:
    """What was timed must have computed: sample once more over a poisoned output, and check that."""
    x, out = sets[0]
    poison = out.fill_(-7).clone()
    for _ in sets:  # one sample of the wall clock may run through some of the sets only
        sampler()
        if not bool((out == poison).all()):
            break
    try:
        measurement.problem.operation.assert_close(out, x, measurement.problem.dim)
    except AssertionError as error:
        measurement.samples.clear()
        measurement.wrong = f"right when checked alone, wrong as it was timed: {error}"


def _wait(x: torch.Tensor) -> None:
    if x.is_cuda:
        import torch

        torch.cuda.synchronize(x.device)
