"""The race: implementations of one problem are checked, then timed in interleaved rounds. Each turn has new inputs."""

from __future__ import annotations

import random
import statistics
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import torch

from kernelzoo import registry
from kernelzoo.device import make_host_memory_error, raise_if_device_lost
from kernelzoo.errors import BusyError, ContractError, DeviceLostError, KernelZooError, UndecidableError
from kernelzoo.measure import energy as energies
from kernelzoo.measure.calls import choose_clock
from kernelzoo.measure.ceilings import Ceilings, moves_like_copy
from kernelzoo.measure.clocks import TURN
from kernelzoo.measure.condition import HostWatch, Watch, watch
from kernelzoo.measure.judge.apart import RaisedError, RunnerProcess, own_pids
from kernelzoo.measure.judge.data import RaceData
from kernelzoo.measure.judge.doubts import TimeChecks, Timed
from kernelzoo.measure.judge.entrant import AnyRunner, Entrant, LocalRunner
from kernelzoo.measure.judge.memory import Tensors
from kernelzoo.measure.measurement import BUSY, FULL, UNDECIDABLE, Cache, Measurement
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.runner import COPY
from kernelzoo.measure.statistics import LONGEST, can_stop_race
from kernelzoo.measure.worker_process import DiedError

_SLICE = 1e-3
"""The most seconds of a one-element kernel on an idle GPU. On a busy GPU, it waits for time slices of two ms."""

_LAUNCHED = "right when checked alone, wrong when timed: "


def race(
    problem: Problem,
    implementations: Sequence[registry.Implementation | Entrant],
    device: torch.device,
    *,
    rounds: int = 15,
    until_clear: bool = False,
    cache: Cache = "cold",
    timed: Timed = "device",
    energy: bool = False,
    ceilings: Ceilings | None = None,
    waive: Collection[str] = (),
    own: AnyRunner | None = None,
    progress: Callable[[str, str], None] = lambda stage, id: None,
) -> dict[str, Measurement]:
    """Measure implementations of one problem on one device. Returns a measurement of each id, in the given order.

    An :class:`Entrant` runs in its runner's process; other implementations run in this process. Each is bound to
    several sets of data, and must pass :class:`kernelzoo.measure.judge.gate.Gate`. Then all are timed in interleaved
    rounds: one turn each, in random order. :mod:`kernelzoo.measure.judge.mutation` writes new data before each turn,
    and checks results after it. A wrong implementation loses its samples.

    ``cache``: if "cold", the cache is filled with other data before a turn, and a turn uses no set twice. If "hot", the
    sets of a turn fit into half the cache, and were written just before. At most ``rounds`` rounds are repeated because
    the device was disturbed. If the operation writes as much as it reads, a plain copy is timed for comparison.
    ``until_clear``: double the rounds, up to fourfold, while a verdict against the first implementation is UNCLEAR.
    ``timed``: if "call", users' calls are timed. They pass the same gate, but are compared with no shortest time.

    ``own``: the runner of kernelzoo's own kernels. Its turns without launches show the cost of a request. A cold result
    is wrong if it is 5 % faster than the limit by ``ceilings``, or too fast for a host's memory. A result is also wrong
    if its turns took longer by the judge's clock. ``waive``: ids that are timed even if they are wrong on special
    values. Their results then say that they break the contract. ``progress`` is called with each step and id. If
    ``rounds`` is 0, nothing is timed, and a right implementation has neither samples nor a failure.

    Raises DeviceLostError if this process can't use the device any more, EnergyError if there is no energy counter.
    """
    here = LocalRunner(device)
    entrants = [one if isinstance(one, Entrant) else Entrant(one, here) for one in implementations]
    ceilings = None if timed == "call" else ceilings
    meter = energies.make_energy_meter(device) if energy else None
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        data = RaceData(problem, device, cache, shared=any(entrant.runner is not here for entrant in entrants))
        asked = [*([own] if own else []), *(entrant.runner for entrant in entrants)]
        runners: list[AnyRunner] = list({id(runner): runner for runner in asked}.values())
        made = _Race(timed, entrants, runners, data, progress, rounds, own or here)
        try:
            if made.open_sets():
                made.admit(waive)
                if rounds:
                    made.run(rounds, until_clear)
                    made.recheck_entrants(meter, ceilings)
        finally:
            for runner in runners:
                with suppress(DiedError, RaisedError):
                    runner.ask("release")
            data.close()
    return made.results


@dataclass
class _Race:
    """The state of a race. ``own``: kernelzoo's trusted runner. ``empty``: seconds of a turn without launches."""

    timed: Timed
    entrants: Sequence[Entrant]
    runners: Sequence[AnyRunner]
    data: RaceData
    progress: Callable[[str, str], None]
    rounds: int
    own: AnyRunner
    results: dict[str, Measurement] = field(default_factory=dict)
    lanes: dict[str, Entrant] = field(default_factory=dict)
    """The entrants whose results are right so far, by id."""
    copy: Entrant | None = None
    empty: float = 0.0
    host: HostWatch | None = None
    """The watch of the host, which is read after each turn, not only after each round."""

    def open_sets(self) -> bool:
        """Allocate the sets, and open them in every runner. If memory is too small, refuse all ids and return False."""
        clock = choose_clock(self.data.device, self.timed, self.data.problem.op)
        state = "filled with other data" if self.data.cache == "cold" else "hot: data written just before"
        detail = f"{clock.detail}, {'L2' if self.data.is_gpu else 'last-level cache'} {state}"
        name = uuid.uuid4().hex
        self.results = {
            one.id: Measurement(
                one.implementation, self.data.problem, clock.name, detail, self.data.cache, name, rounds=self.rounds
            )
            for one in self.entrants
        }
        try:
            self.data.allocate_sets(TURN if self.rounds else 0.0)
        except (RuntimeError, MemoryError) as error:  # torch raises a plain RuntimeError for host memory
            short = "can't allocate memory" in str(error)
            if not (short or isinstance(error, torch.OutOfMemoryError | MemoryError) or "out of memory" in str(error)):
                raise
            if short:
                error = make_host_memory_error("the problem", self.data.problem.bytes)
            for measurement in self.results.values():
                measurement.refused = f"this device's memory does not hold the problem's data: {error}"
            return False
        usable = []
        for runner in self.runners:
            try:
                runner.open_sets(self.data.problem, self.data.sets, self.timed)
                usable.append(runner)
            except RaisedError as raised:
                for entrant in (one for one in self.entrants if one.runner is runner):
                    self.results[entrant.id].refused = f"its process can't use the judge's memory: {raised.words}"
        self.runners = usable
        return True

    def admit(self, waive: Collection[str]) -> None:
        """Check every entrant by the gate. For those that pass, choose the number of launches per turn."""
        for entrant in self.entrants:
            measurement = self.results[entrant.id]
            if measurement.refused:
                continue
            self.progress("check", entrant.id)
            with self.contain_errors(entrant.id):
                try:
                    admitted = self.data.gate.admit(entrant)
                except AssertionError as error:
                    if entrant.id not in waive:
                        raise
                    admitted = self.data.gate.admit(entrant, special_values=False)
                    measurement.breaks = str(error)
                measurement.form, measurement.submit = admitted.facts["form"], admitted.facts["submit"]
                measurement.first_call, entrant.returns = admitted.facts["first_call"], admitted.facts["returns"]
                measurement.same_bits, measurement.batch_invariant = admitted.same_bits, admitted.batch_invariant
                self.lanes[entrant.id] = entrant
            if entrant.id in self.lanes:
                with self.contain_errors(entrant.id, _LAUNCHED):
                    self.choose_launch_count(entrant)
        if self.lanes and self.timed != "call" and moves_like_copy(self.data.sets):
            implementation = next(iter(self.lanes.values())).implementation
            self.copy = Entrant(implementation, self.runners[0], name=COPY)
            self.copy.bind()
            self.choose_launch_count(self.copy)
        if self.lanes and self.timed != "call":
            self.empty = statistics.median(self.time_turn_without_launches(self.own) for _ in range(5))

    def choose_launch_count(self, entrant: Entrant) -> None:
        """Choose an entrant's number of launches per turn, by timing a short turn."""
        most = self.data.sets.count
        if self.timed == "call" and self.data.is_gpu:  # calls of up to 8 kernels; a stream queues at most 1024 kernels
            most = min(most, 120)
        if self.data.cache == "hot":
            most = max(1, min(most, self.data.cached // 2 // max(1, self.data.problem.bytes)))
        entrant.count = min(most, 8)
        seconds = min(self.time_turn(entrant) for _ in range(2))
        entrant.count, entrant.orders = max(1, min(most, -(-int(TURN * 1e9) // max(1, int(seconds * 1e9))))), []

    def time_turn(self, entrant: Entrant, special: Tensors | None = None) -> float:
        """Time a turn on new data, and check its results. Returns the seconds per launch.

        ``special``: inputs for one set of the turn. Raises ContractError if results or times are wrong.
        """
        order, input_copy = entrant.draw_order(self.data.sets, reuse=self.data.is_gpu, copy_input=self.timed != "call")
        entrant.ask("prepare_turn", order=order, input_copy=input_copy)
        mutation = self.data.gate.mutation
        marked = random.choice(order)
        mutation.write_sets(order, None if special is None else {marked: special})
        changed = order[input_copy[0]] if input_copy else None
        if changed is not None:
            mutation.record_input_copy(changed, *input_copy[1:])
        self.data.prepare_caches()
        self.gpu_is_busy(entrant)
        if self.host:
            self.host.ignore_untimed_waits()
        seconds, took = entrant.run_timed_turn()
        if self.host:
            self.host.read()
        self.gpu_is_busy(entrant)
        if not 1e-9 * len(order) < seconds <= took:
            raise ContractError(f"a turn of {took * 1e3:.2f} ms was reported as {seconds * 1e3:.2f} ms", "false time")
        if entrant.name != COPY:
            mutation.check_sets(order, whole_sets=() if special is None else (marked,), changed=changed)
        return seconds / len(order)

    def sample(self, entrant: Entrant) -> float:
        """Return one sample: the mean seconds per launch of up to 20 turns, enough to last TURN seconds."""
        first = self.time_turn(entrant)
        more = min(20, int(TURN / max(1e-9, first * entrant.count))) - 1
        return statistics.fmean([first, *(self.time_turn(entrant) for _ in range(more))])

    def gpu_is_busy(self, entrant: Entrant) -> bool:
        """Whether the GPU is busy while all runners are stopped; always False for kernelzoo's own kernels.

        If it was busy five times or more, and half the times asked, kill the runner and raise DiedError. The error
        blames the entrant if the GPU is then idle in 19 of 20 further looks, else other programs.
        """
        runner = entrant.runner
        if not self.data.is_gpu or not isinstance(runner, RunnerProcess) or runner is self.own:
            return False
        busy = self.data.time_one_element_launch() > _SLICE
        entrant.looks, entrant.busy_looks = entrant.looks + 1, entrant.busy_looks + busy
        if entrant.busy_looks >= 5 and 2 * entrant.busy_looks >= entrant.looks:
            runner.end()
            its_own = sum(self.data.time_one_element_launch() > _SLICE for _ in range(20)) <= 1
            words = "its work ran on the GPU while its process was stopped"
            raise DiedError(entrant.id, words if its_own else "other programs use the GPU: measure again")
        return busy

    def time_turn_without_launches(self, runner: AnyRunner) -> float:
        """Return the seconds of a turn without launches, by the judge's clock."""
        self.data.prepare_caches()
        began = perf_counter()
        runner.ask("run_empty_turn")
        if not self.data.is_gpu:
            return runner.took
        self.data.time_one_element_launch()
        return perf_counter() - began

    def round(self) -> dict[str, float]:
        """Return a sample of each implementation, in random order. One that is wrong or raises leaves the race."""
        sampled = {}
        for id in random.sample(list(self.lanes), len(self.lanes)):
            self.progress("time", id)
            with self.contain_errors(id, _LAUNCHED):
                sampled[id] = self.sample(self.lanes[id])
        return sampled

    def run(self, rounds: int, until_clear: bool) -> None:
        """Time implementations in interleaved rounds until there are enough samples. A round adds one sample each."""
        enough, longest = rounds, LONGEST if until_clear else 1
        copied: list[float] = []
        watcher = self.make_watcher()
        self.host = watcher if isinstance(watcher, HostWatch) else None
        start = watcher.read() if watcher else None
        self.round()  # an uncounted warm-up, which raises the clock
        if self.copy:
            self.sample(self.copy)
        repeated = disturbed = 0
        for _ in range((1 + longest) * rounds):
            before = watcher.read() if watcher else None
            sampled = self.round()
            plain = self.sample(self.copy) if self.copy else None
            if watcher and before and watcher.disturbed(before, watcher.read()):
                if repeated < rounds:
                    repeated += 1
                    continue
                disturbed += 1
            for id in self.lanes:
                self.results[id].samples.append(sampled[id])
            if plain is not None:
                copied.append(plain)
            if not self.lanes:
                break
            if len(self.results[next(iter(self.lanes))].samples) == enough:
                samples = [self.results[id].samples for id in self.lanes]
                if disturbed or enough >= longest * rounds or can_stop_race(samples):
                    break
                enough *= 2
        end = watcher.read() if watcher else None
        for id in self.lanes:
            self.results[id].copy = statistics.median(copied) if copied else None
            self.results[id].repeated_rounds, self.results[id].disturbed_rounds = repeated, disturbed
            self.results[id].condition = (start, end) if start and end else None

    def make_watcher(self) -> Watch | None:
        """Return a watch on the device; for users' calls, on the host, because only the host is timed."""
        if self.data.is_gpu and self.timed != "call":
            return watch(self.data.device)
        return watch(torch.device("cpu"), [process for runner in self.runners for process in runner.processes])

    def recheck_entrants(self, meter: Callable[[], float] | None, ceilings: Ceilings | None) -> None:
        """After the rounds, measure energy if asked, check results on special values, and whether times can be true."""
        doubts, watcher = TimeChecks(self.data, self.timed, self.empty, self.own, self.gpu_is_busy), self.make_watcher()
        for id, entrant in list(self.lanes.items()):
            measurement = self.results[id]
            self.progress("energy" if meter else "check", id)
            with self.contain_errors(id, _LAUNCHED):
                if meter:
                    more = partial(entrant.ask, "queue_turns", seconds=measurement.median * entrant.count)
                    measurement.energy = energies.measure_launch_energy(
                        more, partial(entrant.ask, "wait_for_turns"), entrant.count, meter
                    )
                    self.progress("check", id)
                self.data.gate.mutation.write_guard_bytes()
                self.time_turn(entrant, None if measurement.breaks else self.data.gate.last_turn_inputs)
                self.data.gate.mutation.check_guards()
                self.time_turn(entrant)  # the turn that is repeated: with NaN or infinities, a kernel may take longer
                median, before = measurement.median, watcher.read() if watcher else None
                if false := doubts.find_false_time(entrant, median) or doubts.find_hidden_work(entrant, median):
                    busy = (
                        watcher
                        and before
                        and (watcher.disturbed(before, watcher.read()) or watcher.describe_other_processes(own_pids()))
                    )
                    if busy:
                        raise BusyError(f"{false}; but {busy}, so measure again")
                    raise ContractError(false, "false time")
            if measurement.samples:
                measurement.wrong = doubts.find_impossible_time(measurement, ceilings)
                if measurement.wrong:
                    measurement.samples.clear()
                    measurement.details = {"kind": "false time"}

    @contextmanager
    def contain_errors(self, id: str, when: str = "") -> Iterator[None]:
        """Return a context that records an error as the implementation's failure, and removes it from the race."""
        measurement = self.results[id]
        try:
            yield
            return
        except (DeviceLostError, DiedError):  # these affect all implementations
            raise
        except BusyError as busy:
            measurement.refused, measurement.details = str(busy), {"kind": BUSY}
        except RaisedError as raised:
            outcome = "failed" if when and not raised.words.startswith(FULL) else raised.outcome
            setattr(measurement, outcome, raised.words)
        except KernelZooError as refusal:
            if when:  # it accepted the problem before, so this is no refusal
                measurement.failed = f"raised {type(refusal).__name__}: {refusal}"
            else:
                measurement.refused = str(refusal)
                if isinstance(refusal, UndecidableError):
                    measurement.details = {"kind": UNDECIDABLE}
        except AssertionError as error:
            measurement.wrong = f"{when}{error}"
            if isinstance(error, ContractError):
                measurement.details = {"kind": error.kind}
                if error.place is not None:
                    found = {"place": list(error.place), "got": repr(error.got), "expected": error.expected}
                    measurement.details |= found
        except torch.OutOfMemoryError as error:
            measurement.refused = f"{FULL}: {error}"
        except Exception as error:
            measurement.failed = f"raised {type(error).__name__}: {error}"
            raise_if_device_lost(self.data.device, measurement.implementation.id, measurement.failed)
        measurement.samples.clear()
        self.lanes.pop(id, None)
