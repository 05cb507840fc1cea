"""The entrants of a race, and the runners that run them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from kernelzoo import registry
from kernelzoo.measure.judge.apart import RunnerProcess
from kernelzoo.measure.judge.memory import TensorSets
from kernelzoo.measure.runner import Runner
from kernelzoo.measure.worker_process import DiedError

_ORDERS, _REORDERED = 4, 64
"""A turn of at most _REORDERED launches gets a new order. A longer turn on a GPU reuses one of _ORDERS orders."""

_COPIED = 4096
"""The most elements that are copied from one set's input to another's within a turn."""


class LocalRunner(Runner):
    """A runner in this process, for trusted kernels that need no separate process."""

    processes: Sequence[int | str] = ("self",)
    """The processes that run its kernels."""
    took = 0.0
    """Seconds of the last request, by the judge's clock."""

    def ask(self, call: str, **arguments: Any) -> Any:
        """Call a method of the runner."""
        started = perf_counter()
        found = getattr(self, call)(**arguments)
        self.took = perf_counter() - started
        return found

    def run_seconds_since_stop(self) -> float:
        """Return 0: a runner in this process does not work between requests."""
        return 0.0


AnyRunner = LocalRunner | RunnerProcess
"""A runner as the judge sees it: in this process, or in a separate process that is stopped between requests."""


@dataclass
class Entrant:
    """An implementation in a race, with its runner."""

    implementation: registry.Implementation
    runner: AnyRunner
    table: Mapping[str, int] | None = None
    """The knobs of its launch table; None for the language's table."""
    name: str = ""
    """Its name in the race; its id by default."""
    count: int = 1
    """The number of launches in a turn."""
    returns: bool = False
    """Whether its launches return results, which are copied after the clock stops."""
    looks: int = 0
    """The number of times that the judge has looked for work on the GPU while the process was stopped."""
    busy_looks: int = 0
    """The number of these looks that found work."""
    orders: list[tuple[list[int], tuple[int, ...]]] = field(default_factory=list)
    """Turns for reuse: each has the numbers of its sets in order, and its input copy."""

    @property
    def id(self) -> str:
        return self.name or self.implementation.id

    def draw_order(self, sets: TensorSets, *, reuse: bool, copy_input: bool) -> tuple[list[int], tuple[int, ...]]:
        """Return a turn's set numbers in random order, and which input is copied within the turn, if any."""
        if reuse and self.count > _REORDERED and len(self.orders) == _ORDERS:
            return random.choice(self.orders)
        order = random.sample(range(sets.count), self.count)  # unpredictable, so no launch can do a later one's work
        x, input_copy = sets.inputs[0], tuple[int, ...]()
        if copy_input and self.count > 1 and not sets.problem.operation.relates_inputs and x.elements:
            place = random.randrange(1, self.count)
            input_copy = place, order[random.randrange(place)], min(x.elements, x.shape[-1] if x.shape else 1, _COPIED)
        self.orders = [*self.orders[-_ORDERS + 1 :], (order, input_copy)]
        return order, input_copy

    def ask(self, call: str, **arguments: Any) -> Any:
        """Call a method of the entrant's runner for this entrant."""
        return self.runner.ask(call, id=self.id, **arguments)

    def bind(self) -> dict[str, Any]:
        """Bind the implementation; see :meth:`kernelzoo.measure.runner.Runner.bind`."""
        found = self.ask("bind", table=self.table)
        match found:
            case {"first_call": float() | None, "submit": float() | None, "form": str(), "returns": bool()}:
                return dict(found)
        raise DiedError(self.id, f"something else answered for bind: {str(found)[:80]}")

    def launch(self, set_numbers: Sequence[int]) -> None:
        """Launch on these sets in this order, and wait."""
        self.ask("launch", set_numbers=set_numbers)

    def run_timed_turn(self, repeats: int = 1) -> tuple[float, float]:
        """Run the prepared turn. Returns its seconds by the runner's clock, and the request's by the judge's clock."""
        return float(self.ask("run_timed_turn", repeats=repeats)), self.runner.took

    def run_turn_once(self) -> float:
        """Run the prepared turn once. Returns its seconds by the judge's clock."""
        self.ask("run_turn_once")
        return self.runner.took
