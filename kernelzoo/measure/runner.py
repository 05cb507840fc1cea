"""The runner: it binds kernels to the judge's memory, launches them on request, and times turns.

It has no reference results. If a kernel corrupts the runner's process, only results of this process are lost.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from kernelzoo import registry, tables
from kernelzoo.calls import backend as backends
from kernelzoo.errors import ContractError, KernelZooError, LaunchError
from kernelzoo.launch import Launch, postpone_result_copies
from kernelzoo.measure import planning
from kernelzoo.measure.calls import CallClock, choose_clock, make_user_call
from kernelzoo.measure.ceilings import make_copy_launches
from kernelzoo.measure.clocks import Clock, DeviceClock, InputChange, Turn
from kernelzoo.measure.energy import RepeatedRuns
from kernelzoo.measure.judge.memory import TensorSets
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import Arguments
from kernelzoo.torch_private import spin

_ARRANGED = 4
"""The most prepared turns cached per lane. On a GPU each is a CUDA graph."""

COPY = "copy"
"""The name of the lane that only copies inputs to outputs, for comparison."""

SPIN = 4_000_000
"""Clock cycles by which a kernel delays a stream: 2 ms at 2 GHz. Queueing the later work takes a tenth of that."""


@dataclass
class BoundLaunches:
    """One implementation in a race, with a launch on each set of inputs and outputs."""

    launches: list[Launch]
    implementation: registry.Implementation | None = None
    table: Any = None
    """The launch table that it is bound with; None for the language's table."""
    turn: Turn | None = None
    arranged: dict[tuple[int, ...], tuple[Turn, deque[Callable[[], object]]]] = field(default_factory=dict)
    """Prepared turns by ``prepare_turn``'s arguments, with functions that copy the results returned in preparation."""
    delivers: deque[Callable[[], object]] = field(default_factory=deque)
    returns: bool = False
    """Whether its launches return results, which are copied to the outputs after the clock stops."""
    waits: bool = False
    """Whether returned results are copied after the current turn, not in it."""
    count: int = 0
    """The number of launches of the current turn."""
    queued_turns: RepeatedRuns | None = None

    def apply_table(self) -> AbstractContextManager[None]:
        """Return a context in which the implementation's launch table applies."""
        return nullcontext() if self.table is None else tables.using(self.table)

    def bind(self, problem: Problem, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> Launch:
        """Bind the implementation to these tensors, and return the launch."""
        assert self.implementation is not None
        with self.apply_table():
            return problem.launch(self.implementation, inputs, outs)


class Runner:
    """A runner of implementations (*lanes*) on sets of inputs and outputs of one problem."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._clock: Clock | CallClock
        self._sets: TensorSets
        self._lanes: dict[str, BoundLaunches] = {}
        self._timed = "device"

    def open_sets(self, problem: Problem, memory: Mapping[str, Any] | TensorSets, timed: str) -> None:
        """Use new sets from now on, and drop all lanes. ``memory``: the sets, or another process's handle to them."""
        self._lanes, self._timed = {}, timed
        if not isinstance(memory, TensorSets):
            memory = TensorSets(problem, int(memory["count"]), self.device, memory=memory)
        self._sets, self._clock = memory, choose_clock(self.device, timed, problem.op)

    def release(self) -> None:
        """Drop the sets and all lanes, and free their memory for other processes."""
        self._lanes = {}
        self.__dict__.pop("_sets", None)
        self._free_cache()

    def bind(self, id: str, table: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Bind an implementation to every set, and launch it once on the first.

        Returns ``first_call`` and ``submit`` in seconds, as ``form`` the variant's id, and whether launches ``return``
        results. Raises what the implementation raises, or ContractError if its bind returns no launch.
        """
        sets = self._sets
        if id == COPY:
            self._lanes[id] = BoundLaunches(make_copy_launches([sets[number] for number in range(sets.count)]))
            return {"first_call": None, "submit": None, "form": "", "returns": False}
        made = registry.implementation(id.partition("@")[0])
        if emulator := backends.get(made.backend).emulator:
            raise KernelZooError(f"{emulator} runs here, and its times mean nothing")
        lane = BoundLaunches([], made, None if table is None else planning.make_table(made, table))
        self._wait()
        started = time.perf_counter()
        launches = [self._bind_set(lane, 0)]
        with postpone_result_copies(1) as results:
            self._run(launches[:1])
        first = time.perf_counter() - started
        for deliver in results:
            deliver()
        launches += [self._bind_set(lane, number) for number in range(1, sets.count)]
        inputs, outs = sets[0]
        with lane.apply_table():
            form = find_first_variant(made, sets.problem.arguments(inputs), outs)
        with postpone_result_copies(0):
            submit = self._clock.measure_submit_seconds(launches)
        if self._timed == "call":
            launches = [make_user_call(made, sets.problem, *sets[number]) for number in range(sets.count)]
        lane.launches, lane.returns = launches, bool(results)
        self._lanes[id] = lane
        return {"first_call": first, "submit": submit, "form": form, "returns": lane.returns}

    def launch(self, id: str, set_numbers: Sequence[int]) -> None:
        """Launch an implementation on the sets with these numbers, in this order, and wait."""
        self._run([self._lanes[id].launches[number] for number in set_numbers])

    def launch_on_busy_stream(self, id: str, source_set: int, other_stream: bool = False) -> None:
        """Queue work on a busy stream: copy ``source_set``'s inputs to set 0, launch on it, and copy the outputs back.

        The results are right only if the launch reads its inputs and writes its outputs in stream order.
        """
        (inputs, outs), (given, results) = self._sets[0], self._sets[source_set]
        launch = self._lanes[id].launches[0]
        self._wait()
        stream: Any = torch.cuda.Stream  # torch has no type for it
        with torch.cuda.stream(stream(self.device)) if other_stream else nullcontext():
            self._spin()
            for x, value in zip(inputs, given, strict=True):
                x.copy_(value)
            self._launch_and_check(launch)
            for result, out in zip(results, outs, strict=True):
                result.copy_(out)
        self._wait()

    def launch_chained(self, id: str, launch_count: int) -> None:
        """Queue pairs of launches on a busy stream. The first of a pair writes its output into the second's input."""
        sets, launches = self._sets, list[Launch]()
        for number in range(launch_count):
            inputs, (_, *others) = sets[number]
            outs = (sets.chained_output(number), *others)
            launches.append(self._lanes[id].bind(sets.problem, inputs, outs))
        self._spin()
        self._run(launches)

    def launch_into_same_outputs(self, id: str) -> None:
        """Queue two launches on a busy stream: on other inputs, then on set 1's inputs. Both write set 1's outputs."""
        sets, lane = self._sets, self._lanes[id]
        first = lane.bind(sets.problem, sets[0][0], sets[1][1])
        self._spin()
        self._run([first, lane.launches[1]])

    def launch_single_row(self, id: str, set_number: int) -> None:
        """Launch on only the first row of a set, into the first element or row of its outputs."""
        first = self._sets.select_row(set_number, (0,) * len(self._sets.inputs[0].shape))
        self._run([self._lanes[id].bind(*first)])

    def prepare_turn(
        self, id: str, order: Sequence[int], input_copy: Sequence[int] = (), copy_outs: bool = False
    ) -> None:
        """Prepare a turn with a launch on each of these sets, in this order. The sets' data changes before the turn.

        ``copy_outs``: the turn also copies returned results to the outputs. ``input_copy``: a launch's index in the
        turn, another set's number, and a number of elements. Right before that launch, the turn copies so many
        elements of the other set's first input into the launch's first input.
        """
        lane, key = self._lanes[id], (*order, *input_copy, copy_outs)
        lane.waits = lane.returns and not copy_outs
        if key not in lane.arranged:
            while len(lane.arranged) >= (1 if lane.returns else _ARRANGED):  # a turn keeps all its results alive
                lane.arranged.pop(next(iter(lane.arranged)))
                lane.turn, lane.delivers = None, deque()
                if lane.returns:
                    self._free_cache()
            change = self._make_input_change(order, *input_copy) if input_copy else None
            with self._collect_result_copies(lane, len(order)) as delivers:
                turn = self._clock.prepare_turn([lane.launches[number] for number in order], change)
            lane.arranged[key] = turn, delivers
        lane.turn, lane.delivers = lane.arranged[key]
        lane.count = len(order)

    @staticmethod
    def _collect_result_copies(lane: BoundLaunches, count: int) -> AbstractContextManager[deque[Callable[[], object]]]:
        """Return a context that collects the functions that copy returned results after the clock stops, if any do."""
        return postpone_result_copies(count) if lane.waits else nullcontext(deque())

    def _make_input_change(self, order: Sequence[int], index: int, source_set: int, elements: int) -> InputChange:
        (given, *_), (x, *_) = (self._sets[number][0] for number in (source_set, order[index]))
        return index, partial(x.view(-1)[:elements].copy_, given.view(-1)[:elements])

    def run_timed_turn(self, id: str, repeats: int = 1) -> float:
        """Run the prepared turn ``repeats`` times in a row. Returns the mean seconds per turn."""
        lane = self._lanes[id]
        if lane.turn is None:
            raise ContractError("no turn is arranged", "not repeatable")
        with self._collect_result_copies(lane, lane.count) as delivers:
            seconds = lane.turn(repeats)
        self._wait()
        for deliver in delivers or lane.delivers:
            deliver()
        self._wait()
        return seconds

    def run_turn_once(self, id: str) -> None:
        """Run the prepared turn, and wait for it. The judge times the turn by its own clock."""
        turn = self._lanes[id].turn
        if turn is not None:
            getattr(turn, "queue", partial(turn, 1))()
        self._wait()

    def run_empty_turn(self) -> None:
        """Run a turn without launches, so that the judge can time the cost of a request."""
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                spin(DeviceClock.SPIN)
        self._wait()

    def queue_turns(self, id: str, seconds: float) -> None:
        """Queue turns of about ``seconds`` each, enough to keep the device busy."""
        lane = self._lanes[id]
        if lane.queued_turns is None:
            lane.queued_turns = RepeatedRuns(getattr(lane.turn, "queue"), seconds, self.device)  # noqa: B009
        lane.queued_turns.queue_runs()

    def wait_for_turns(self, id: str) -> float:
        """Wait for the queued turns. Returns the mean seconds per turn."""
        turns, self._lanes[id].queued_turns = self._lanes[id].queued_turns, None
        return turns.wait_for_runs() if turns is not None else 0.0

    def _bind_set(self, lane: BoundLaunches, number: int) -> Launch:
        try:
            return lane.bind(self._sets.problem, *self._sets[number])
        except LaunchError as error:
            raise ContractError(str(error), "returns no launch") from None
        except AssertionError as error:  # a failure of the implementation, not a finding of a check
            raise RuntimeError(f"an assertion of its own failed: {error}") from error

    def _run(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            self._launch_and_check(launch)
        self._wait()

    @staticmethod
    def _launch_and_check(launch: Launch) -> None:
        try:
            result: object = launch()  # type: ignore[func-returns-value]  # which is what is checked here
        except ContractError:  # about a result that it returned
            raise
        except AssertionError as error:
            raise RuntimeError(f"an assertion of its own failed: {error}") from error
        if result is not None:
            raise ContractError(
                f"a launch writes into out and returns None; this one returned {type(result)}", "wrong kind of result"
            )

    def _spin(self) -> None:
        if self.device.type == "cuda":
            spin(SPIN)

    def _free_cache(self) -> None:
        """Free the unused memory that torch would keep for this process."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def find_first_variant(implementation: registry.Implementation, args: Arguments, outs: Sequence[torch.Tensor]) -> str:
    """Return the id of the variant that the first launch would run; ``auto`` chooses one. Nothing is launched."""
    forms = list[str]()

    def ask(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        forms.append(implementation.form(*tensors, **scalars))
        return lambda: None

    implementation.operation.make_launch(ask, args, outs)
    return forms[0]
