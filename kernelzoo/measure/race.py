"""The race: implementations of one problem, checked, then timed in interleaved rounds on the same inputs."""

from __future__ import annotations

import random
import statistics
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kernelzoo import registry
from kernelzoo.calls import backend as backends
from kernelzoo.device import device_lives, no_room
from kernelzoo.errors import ContractError, DeviceLostError, KernelZooError
from kernelzoo.launch import Launch
from kernelzoo.measure import energy as energies
from kernelzoo.measure import profiler
from kernelzoo.measure.calls import CallClock, Called
from kernelzoo.measure.ceilings import Ceilings, beyond_memory, copies, has_copy
from kernelzoo.measure.clocks import Clock, Sampler, clock_for
from kernelzoo.measure.condition import watch
from kernelzoo.measure.gate import Gate
from kernelzoo.measure.measurement import Cache, Measurement
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.process_state import KIND, Watch
from kernelzoo.measure.sets import rotated
from kernelzoo.operations import Arguments

if TYPE_CHECKING:
    import torch

Timed = Literal["device", "call"]
"""What to time: bound launches, or whole calls (see :mod:`kernelzoo.measure.calls`)."""
Stage = Literal["check", "time", "energy", "cross-check"]
"""The current step: the gate, the samples, the energy, or the second clock."""

Turned = Callable[[str, float | None, int], None]
"""Called before and after each turn with the id, the sample (None before), and its number of launches."""

BEYOND = 1.05
"""A cold result above the device's limit by this factor is a measurement error."""

_STRAY = 2.0
"""Seconds to wait for a thread that a turn started, so that it disturbs no other turn."""

_AS_TIMED = "right when checked alone, wrong when timed: "


def race(
    problem: Problem,
    implementations: Sequence[registry.Implementation],
    device: torch.device,
    *,
    rounds: int = 15,
    until_clear: bool = False,
    cache: Cache = "cold",
    timed: Timed = "device",
    energy: bool = False,
    ceilings: Ceilings | None = None,
    waive: Collection[str] = (),
    progress: Callable[[Stage, str], None] = lambda stage, id: None,
    turned: Turned = lambda id, sample, launches: None,
) -> dict[str, Measurement]:
    """Measure implementations of one problem on one device; returns every id in the given order.

    The inputs are new random data. Cold: several sets in rotation, so that no launch finds its data in the cache. Hot:
    one set, launched repeatedly. Each implementation is bound to each set and passes
    :class:`kernelzoo.measure.gate.Gate`. Then all are timed in interleaved rounds: one sample each, in shuffled order.
    Inputs change before a sample, and results are checked after it; see :mod:`kernelzoo.measure.input_mutation`. A
    wrong implementation loses its result.

    A round with a disturbed device is repeated, for at most ``rounds`` rounds; see :mod:`kernelzoo.measure.condition`.
    At the end, the timed object (for example a CUDA graph) is checked on fresh data. If the operation writes as much as
    it reads, a copy is timed in the same rounds. ``until_clear``: double the rounds, up to fourfold, while a verdict
    against the first implementation is UNCLEAR. It stops if the device stays disturbed. ``timed``: whole calls pass the
    same gate, and have no limit.

    With ``ceilings``, a cold result more than 5 % faster than its limit is wrong. So is a cold host result faster than
    memory, and a change of the process; see :mod:`kernelzoo.measure.process_state`. An id in ``waive`` may be wrong on
    special values (NaN, infinities, a dtype's largest). It is timed, and its result says that it breaks the contract.
    ``progress`` is called before each step. ``turned`` is called before and after each turn.

    Raises DeviceLostError if an implementation broke the device for this process, or made a lasting change. Raises
    EnergyError if the device has no energy counter.
    """
    import torch

    clock, watched = clock_for(device), device
    if timed == "call":  # the host is timed, and may be disturbed
        clock, watched, ceilings = CallClock(clock, device, problem.op), torch.device("cpu"), None
    meter = energies.meter(device) if energy else None
    detail = f"{clock.detail}, {_CACHES[cache][device.type == 'cuda']}"
    name = uuid.uuid4().hex
    results = {i.id: Measurement(i, problem, clock.name, detail, cache, name, rounds=rounds) for i in implementations}
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        try:
            sets = rotated(problem, device, clock, cache)
            gate = Gate(problem, sets)
        except (RuntimeError, MemoryError) as error:  # torch raises a plain RuntimeError for host memory
            if not (isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)):
                raise
            if type(error) is RuntimeError:
                error = no_room("the problem", problem.bytes)
            for measurement in results.values():
                measurement.refused = f"this device's memory does not hold the problem's data: {error}"
            return results
        state = Watch()
        lanes: dict[str, Sampler] = {}
        for id, measurement in results.items():
            progress("check", id)
            with _its_own_row(measurement, device, state):
                lanes[id] = _admit(measurement, gate, clock, waived=id in waive)
        copy = clock.prepare(copies(sets)) if lanes and has_copy(sets) and timed != "call" else None
        race = _Race(results, lanes, gate, clock, device, watched, state, progress, turned)
        _rounds(race, copy, rounds, until_clear)
        for id, sampler in lanes.items():
            measurement = results[id]
            progress("energy" if meter else "check", id)
            with _its_own_row(measurement, device, state, _AS_TIMED):
                if meter and sampler.queue is not None:
                    gate.stirring.hold()  # what its probe wrote last may be stale
                    work = energies.Replays(sampler.queue, measurement.median * sampler.launches, device)
                    measurement.energy = energies.of(work, sampler.launches, meter)
                    progress("check", id)
                gate.check_timed(sampler.delivered, special=not measurement.breaks)
            if measurement.samples and ceilings is not None:
                measurement.limit = ceilings.limit(problem.op, measurement.bytes)
                if (measurement.of_limit or 0) > BEYOND:
                    measurement.wrong = (
                        f"{measurement.median * 1e6:.2f} us is {measurement.of_limit:.2f} times faster than this device"
                        f" can move the bytes ({measurement.limit * 1e6:.2f} us): a measurement error"
                    )
                    measurement.samples.clear()
            elif measurement.samples and cache == "cold" and device.type == "cpu":
                volume = len(sets) * measurement.bytes
                measurement.wrong = beyond_memory(measurement.bytes, measurement.median, volume)
                if measurement.wrong:
                    measurement.samples.clear()
    return results


def cross_check(
    problem: Problem,
    implementations: Sequence[registry.Implementation],
    device: torch.device,
    *,
    progress: Callable[[Stage, str], None] = lambda stage, id: None,
) -> dict[str, float]:
    """Seconds per launch by the profiler's clock, by id; see :mod:`kernelzoo.measure.profiler`.

    It uses new cold data, for implementations that have passed a race. Those that the profiler can't time are left out.
    The process must time nothing afterwards: the profiler slows it down.
    """
    import torch

    found = {}
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        sets = rotated(problem, device, clock_for(device), "cold")
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


@contextmanager
def _its_own_row(measurement: Measurement, device: torch.device, state: Watch, when: str = "") -> Iterator[None]:
    """A context in which an implementation's error or change of the process costs only its own row.

    Raises DeviceLostError for what can't be undone.
    """
    import torch

    try:
        with state.left_alone(measurement.implementation.id):
            try:
                yield
            except DeviceLostError as raised:  # raised by the implementation, like any other error
                raise RuntimeError(str(raised)) from raised
        return
    except DeviceLostError:
        raise
    except KernelZooError as refusal:
        if when:  # it accepted the problem, and is now running
            measurement.failed = f"raised {type(refusal).__name__}: {refusal}"
        else:
            measurement.refused = str(refusal)
    except ContractError as error:
        changed = error.kind == KIND and when
        measurement.wrong = f"while it was timed, it {error}" if changed else f"{when}{error}"
    except AssertionError as error:
        measurement.wrong = f"{when}{error}"
    except torch.OutOfMemoryError as error:
        measurement.refused = f"out of memory: {error}"
    except Exception as error:
        measurement.failed = f"raised {type(error).__name__}: {error}"
        device_lives(device, measurement.implementation.id, measurement.failed)
    measurement.samples.clear()


def _admit(measurement: Measurement, gate: Gate, clock: Clock, *, waived: bool) -> Sampler:
    """Pass one implementation through the gate, warm it up and capture it. Raises AssertionError if it is wrong."""
    backend = backends.get(measurement.implementation.backend)
    if backend.emulator:
        raise KernelZooError(f"{backend.emulator} runs here, and its times mean nothing")
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
    if isinstance(clock, CallClock):
        admitted = gate.admit(Called.of(measurement.implementation), special=not measurement.breaks)
    return clock.prepare(admitted.launches, gate.stirring.probe())


def form_of(implementation: registry.Implementation, args: Arguments, outs: Sequence[torch.Tensor]) -> str:
    """The id of the form that an implementation would launch; nothing is launched.

    With several launches, it is the form of the first.
    """
    forms = list[str]()

    def ask(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        forms.append(implementation.form(*tensors, **scalars))
        return lambda: None

    implementation.operation.launch(ask, args, outs)
    return forms[0]


@dataclass
class _Race:
    """The state of a race."""

    results: dict[str, Measurement]
    lanes: dict[str, Sampler]
    """The lanes that are right so far."""
    gate: Gate
    clock: Clock
    device: torch.device
    watched: torch.device
    state: Watch
    progress: Callable[[Stage, str], None]
    turned: Turned

    def round(self) -> dict[str, float]:
        """Run one turn of each lane in random order, with changed inputs, and check it. A lane that is wrong or raises
        leaves the race."""
        sampled = {}
        for id in random.sample(list(self.lanes), len(self.lanes)):
            self.progress("time", id)
            sampler, threads = self.lanes[id], set(threading.enumerate())
            self.gate.stirring.before(sampler.upcoming(), sampler.probe)
            self.settle()
            with _its_own_row(self.results[id], self.device, self.state, _AS_TIMED):
                self.turned(id, None, 0)
                seconds = sampler()
                self.turned(id, seconds, sampler.launches)
                sampler.deliver()
                self.gate.stirring.after()
                sampled[id] = seconds
                for stray in set(threading.enumerate()) - threads:
                    stray.join(_STRAY)
            result = self.results[id]
            if id not in sampled or result.refused or result.wrong or result.failed:  # found after its turn
                sampled.pop(id, None)
                del self.lanes[id]
                self.gate.stirring.restore()
        return sampled

    def settle(self) -> None:
        gate = self.gate
        hot = [] if len(gate.sets) > 1 else [*gate.sets[0][0], *gate.sets[0][1]]
        self.clock.settle(hot, writes=has_copy(gate.sets))
        self.clock.forget()


def _rounds(race: _Race, copy: Sampler | None, rounds: int, until_clear: bool) -> None:
    """Time the lanes in interleaved rounds until there are enough samples, one of every lane in each round."""
    from kernelzoo.measure.statistics import LONGEST, settled  # imports numpy, which a report does without

    results, lanes = race.results, race.lanes
    enough, longest = rounds, LONGEST if until_clear else 1
    copied: list[float] = []
    watcher = watch(race.watched)
    start = watcher.read() if watcher else None
    race.round()  # an uncounted warm-up, which raises the clock
    repeated = disturbed = 0
    for _ in range((1 + longest) * rounds):
        before = watcher.read() if watcher else None
        sampled = race.round()
        race.settle()
        plain = copy() if copy else None
        if watcher and before and watcher.disturbed(before, watcher.read()):
            if repeated < rounds:
                repeated += 1
                continue
            disturbed += 1
        for id in lanes:
            results[id].samples.append(sampled[id])
        if plain is not None:
            copied.append(plain)
        if not lanes:
            break
        if len(results[next(iter(lanes))].samples) == enough:
            if disturbed or enough >= longest * rounds or settled([results[id].samples for id in lanes]):
                break
            enough *= 2
    end = watcher.read() if watcher else None
    for id in lanes:
        results[id].copy = statistics.median(copied) if copied else None
        results[id].repeated_rounds, results[id].disturbed_rounds = repeated, disturbed
        results[id].condition = (start, end) if start and end else None
