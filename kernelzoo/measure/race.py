"""The race: several implementations of one problem, checked, then timed in interleaved rounds on the same inputs."""

from __future__ import annotations

import random
import statistics
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kernelzoo import backend as backends
from kernelzoo import registry
from kernelzoo.device import device_lives
from kernelzoo.errors import KernelZooError
from kernelzoo.launch import Launch
from kernelzoo.measure import profiler
from kernelzoo.measure.ceilings import Ceilings, copies, has_copy
from kernelzoo.measure.clocks import Clock, clock_for
from kernelzoo.measure.condition import DISTURBED, Condition, watch
from kernelzoo.measure.gate import Gate
from kernelzoo.measure.gate_memory import Set, shared_inputs
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import Arguments

if TYPE_CHECKING:
    import torch

Cache = Literal["cold", "hot"]
Stage = Literal["check", "time", "cross-check"]
"""What is done now: the gate, the samples, or the second clock."""

BEYOND = 1.05
"""A cold result this many times faster than the device's own limit is an error of the measurement."""


BREAKS = "breaks the contract"
"""The flag of an implementation that is right on ordinary values alone, and was timed on request."""


@dataclass
class Measurement:
    """One implementation on one problem: samples, or the reason why there are none."""

    implementation: registry.Implementation
    problem: Problem
    clock: str
    clock_detail: str
    cache: Cache = "cold"
    race: str = ""
    """Names the race: the samples of two measurements of one race are paired, round by round."""
    form: str = ""
    """The id of the form that was bound; of a chooser, the form that it chose."""
    rounds: int = 0
    """Those that were asked for; of a race that goes on until it tells something there may be more samples."""
    samples: list[float] = field(default_factory=list)
    """Seconds per launch, one per round, in the order of the rounds."""
    submit: float | None = None
    """Seconds of the host's time to submit one bound launch; None on the host, where the launch is that time."""
    first_call: float | None = None
    """Seconds to bind and to run the first time, with compilation unless a cache had the kernel."""
    cupti: float | None = None
    """Seconds per launch by a second clock, the profiler's; None if it was not asked or can't tell."""
    copy: float | None = None
    """Seconds that a plain copy of the same input to the same output took in the same rounds (median); None where the
    operation writes less than it reads."""
    limit: float | None = None
    """Seconds that the best possible implementation takes on this device; None where no ceiling was measured."""
    repeated_rounds: int = 0
    """Rounds of the race that were measured again, because the device was disturbed."""
    disturbed_rounds: int = 0
    """Rounds that count although the device was disturbed: it never came to rest."""
    condition: tuple[Condition, Condition] | None = None
    """The device's state before the race and after."""
    refused: str = ""
    """Why it can't take this problem or can't run here, which is no fault."""
    breaks: str = ""
    """What the gate found, if the implementation is timed on request: it is right on ordinary values and breaks the
    contract on special ones."""
    wrong: str = ""
    """What the gate found. A wrong implementation is not timed; if it is wrong after timing, it has no result."""
    failed: str = ""
    """The unexpected error that was raised."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def gb_per_s(self) -> float:
        """Bytes that must be moved, per second, in units of 1e9."""
        return self.bytes / self.median / 1e9

    @property
    def bytes(self) -> int:
        return self.problem.bytes

    @property
    def of_limit(self) -> float | None:
        """Share of the limit reached; None where there is no limit, or the cache is hot, which knows no such limit."""
        return None if self.limit is None or self.cache == "hot" else self.limit / self.median

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader of this time must know: the implementation breaks the contract; the host submits launches more
        slowly than the device runs them; two clocks disagree; the device was disturbed in every round."""
        found = [BREAKS] if self.breaks else []
        if self.submit is not None and self.median < self.submit:
            found.append("host-bound")
        if self.cupti is not None and profiler.disagree(self.median, self.cupti):
            found.append("clocks disagree")
        if self.disturbed_rounds:
            found.append(DISTURBED)
        return tuple(found)


def race(
    problem: Problem,
    implementations: Sequence[registry.Implementation],
    device: torch.device,
    *,
    rounds: int = 15,
    until_clear: bool = False,
    cache: Cache = "cold",
    ceilings: Ceilings | None = None,
    waive: Collection[str] = (),
    progress: Callable[[Stage, str], None] = lambda stage, id: None,
) -> dict[str, Measurement]:
    """Measure implementations of one problem on one device; the result has every id, in the order given.

    The inputs are new random data. Cold: several sets of inputs, so that no launch finds its data in the cache. Hot:
    one set, launched repeatedly. Each implementation is bound to each set and goes through the gate (see
    :class:`kernelzoo.measure.gate.Gate`). Those that pass are timed in interleaved rounds: each gives one sample a
    round, in an order that is shuffled each time. A round in which the device was disturbed (see
    :mod:`kernelzoo.measure.condition`) is measured again, for at most ``rounds`` rounds. At the end, what was timed (a
    CUDA graph, for example) is checked. If the operation writes as much as it reads, a plain copy of the same data is
    timed in the same rounds. ``until_clear``: as long as some verdict against the first implementation is UNCLEAR, and
    nothing stayed disturbed, the rounds are doubled, at most to four times as many.

    With ``ceilings``, a cold result that is more than 5 % faster than its limit counts as wrong. An id in ``waive`` may
    be wrong on special values (NaN, infinities, a dtype's largest): if it is right on all others, it is timed, and its
    result says that it breaks the contract. ``progress`` is called before each step.

    Raises DeviceLostError if an implementation broke the device for this process.
    """
    import torch

    clock = clock_for(device)
    detail = f"{clock.detail}, {_CACHES[cache][device.type == 'cuda']}"
    name = uuid.uuid4().hex
    results = {i.id: Measurement(i, problem, clock.name, detail, cache, name, rounds=rounds) for i in implementations}
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        try:
            sets = _rotated(problem, device, clock, cache)
            gate = Gate(problem, sets)
        except (RuntimeError, MemoryError) as error:  # for the host's memory, torch raises a plain RuntimeError
            if not (isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)):
                raise
            for measurement in results.values():
                measurement.refused = f"this device's memory does not hold the problem's data: {error}"
            return results
        lanes: dict[str, Callable[[], float]] = {}
        for id, measurement in results.items():
            progress("check", id)
            try:
                lanes[id] = _admit(measurement, gate, clock, waived=id in waive)
            except KernelZooError as refusal:
                measurement.refused = str(refusal)
            except AssertionError as error:
                measurement.wrong = str(error)
            except torch.OutOfMemoryError as error:
                measurement.refused = f"out of memory: {error}"
            except Exception as error:  # only this row is lost, whatever the kernel raises
                measurement.failed = f"raised {type(error).__name__}: {error}"
                device_lives(device, id, measurement.failed)
        copy = clock.prepare(copies(sets)) if lanes and has_copy(sets) else None
        _rounds(results, lanes, copy, clock, rounds, until_clear, device, progress)
        for id, sampler in lanes.items():
            measurement = results[id]
            progress("check", id)
            try:
                gate.check_timed(sampler, special=not measurement.breaks)
            except AssertionError as error:
                measurement.samples.clear()
                measurement.wrong = f"right when checked alone, wrong as it was timed: {error}"
                continue
            if ceilings is not None:
                measurement.limit = ceilings.limit(problem.op, measurement.bytes)
                if (measurement.of_limit or 0) > BEYOND:
                    measurement.wrong = (
                        f"{measurement.median * 1e6:.2f} us is {measurement.of_limit:.2f} times faster than this device"
                        f" can move the bytes ({measurement.limit * 1e6:.2f} us): an error, and no result"
                    )
                    measurement.samples.clear()
    return results


def cross_check(
    problem: Problem,
    implementations: Sequence[registry.Implementation],
    device: torch.device,
    *,
    progress: Callable[[Stage, str], None] = lambda stage, id: None,
) -> dict[str, float]:
    """Seconds per launch by a second clock, the profiler's (see :mod:`kernelzoo.measure.profiler`), by id.

    On new cold data, for implementations that have been through a race; without those that the profiler can't time. To
    be called in a process that times nothing afterwards: the profiler stays loaded, and slows it down.
    """
    import torch

    found = {}
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        sets = _rotated(problem, device, clock_for(device), "cold")
        for implementation in implementations:
            progress("cross-check", implementation.id)
            launches = [problem.launch(implementation, *one) for one in sets]
            for launch in launches:
                launch()
            seconds = profiler.kernel_seconds(launches, device)
            if seconds is not None:
                found[implementation.id] = seconds
    return found


_CACHES = {
    "cold": ("last-level cache cold by rotation", "L2 cold by rotation"),
    "hot": ("last-level cache hot: one set of data again and again", "L2 hot: one set of data again and again"),
}


def draw_sets(problem: Problem, device: torch.device, *, count: int) -> list[Set]:
    """Sets of new inputs and outputs, to rotate through. Inputs that all rows share have the same values in each."""
    import torch

    generator = torch.Generator(device).manual_seed(random.getrandbits(48))
    sets: list[Set] = []
    for _ in range(count):
        inputs = problem.inputs(generator)
        if sets:
            for shared in shared_inputs(problem.operation):
                inputs[shared].copy_(sets[0][0][shared])
        sets.append((inputs, problem.operation.allocate(problem.arguments(inputs))))
    return sets


def _rotated(problem: Problem, device: torch.device, clock: Clock, cache: Cache) -> list[Set]:
    """Cold: so many sets that together they exceed the cache, from 2 to 2048. Hot: one."""
    one = max(1, problem.bytes)
    return draw_sets(problem, device, count=1 if cache == "hot" else min(max(2, -(-clock.sets_bytes // one)), 2048))


def _admit(measurement: Measurement, gate: Gate, clock: Clock, *, waived: bool) -> Callable[[], float]:
    """Pass one implementation through the gate, warm it up and capture it. Raises AssertionError if it is wrong."""
    backend = backends.get(measurement.implementation.backend)
    if backend.emulator:
        raise KernelZooError(f"{backend.emulator} is running, whose time says nothing about a device's")
    try:
        admitted = gate.admit(measurement.implementation)
    except AssertionError as error:
        if not waived:
            raise
        admitted = gate.admit(measurement.implementation, special=False)
        measurement.breaks = str(error)
    inputs, outs = gate.sets[0]
    measurement.form = form_of(measurement.implementation, measurement.problem.arguments(inputs), outs)
    measurement.first_call = admitted.first_call
    measurement.submit = clock.submit(admitted.launches)
    return clock.prepare(admitted.launches)


def form_of(implementation: registry.Implementation, args: Arguments, outs: Sequence[torch.Tensor]) -> str:
    """The id of the form that an implementation would launch for arguments that it takes; nothing is launched.

    If it takes several launches, the form of the first.
    """
    forms = list[str]()

    def ask(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        forms.append(implementation.form(*tensors, **scalars))
        return lambda: None

    implementation.operation.launch(ask, args, outs)
    return forms[0]


def _rounds(
    results: dict[str, Measurement],
    lanes: dict[str, Callable[[], float]],
    copy: Callable[[], float] | None,
    clock: Clock,
    rounds: int,
    until_clear: bool,
    device: torch.device,
    progress: Callable[[Stage, str], None],
) -> None:
    """Time the lanes in interleaved rounds, until there are enough samples; each round gives one of every lane."""
    from kernelzoo.measure.statistics import LONGEST, settled  # imports numpy, which a report does without

    order = list(lanes)
    enough, longest = rounds, LONGEST if until_clear else 1
    copied: list[float] = []
    watcher = watch(device)
    start = watcher.read() if watcher else None
    for id in order:  # a warm-up, not counted: it brings the device to its working clock
        progress("time", id)
        lanes[id]()
    repeated = disturbed = 0
    for _ in range((1 + longest) * rounds):
        random.shuffle(order)
        before = watcher.read() if watcher else None
        sampled = {}
        for id in order:
            progress("time", id)
            clock.forget()
            sampled[id] = lanes[id]()
        clock.forget()
        plain = copy() if copy else None
        if watcher and before and watcher.disturbed(before, watcher.read()):
            if repeated < rounds:
                repeated += 1
                continue
            disturbed += 1
        for id, sample in sampled.items():
            results[id].samples.append(sample)
        if plain is not None:
            copied.append(plain)
        if order and len(results[order[0]].samples) == enough:
            if disturbed or enough >= longest * rounds or settled([results[id].samples for id in lanes]):
                break
            enough *= 2
    end = watcher.read() if watcher else None
    for id in order:
        results[id].copy = statistics.median(copied) if copied else None
        results[id].repeated_rounds, results[id].disturbed_rounds = repeated, disturbed
        results[id].condition = (start, end) if start and end else None
