"""Entrants of a race, and the runners that have them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from kernelzoo import registry
from kernelzoo.measure.judge.apart import Apart
from kernelzoo.measure.judge.memory import Sets
from kernelzoo.measure.runner import Runner
from kernelzoo.measure.worker_process import DiedError

_ORDERS, _REORDERED = 4, 64
"""A turn of at most _REORDERED launches has an order of its own; a longer one takes one of _ORDERS."""

_LINKED = 4096
"""Most elements that a link copies."""


class Here(Runner):
    """A runner in this process: for own kernels, where nothing needs to be kept apart."""

    processes: Sequence[int | str] = ("self",)
    """The processes that work for it."""
    took = 0.0
    """Seconds of the last request, by the judge's clock."""

    def ask(self, call: str, **arguments: Any) -> Any:
        """Call a method of the runner."""
        started = perf_counter()
        found = getattr(self, call)(**arguments)
        self.took = perf_counter() - started
        return found

    def ran_on(self) -> float:
        """Seconds that it has worked since then."""
        return 0.0


Seat = Here | Apart
"""A runner as the judge sees it: in this process, or in its own, where it is stopped between requests."""


@dataclass
class Entrant:
    """An implementation in a race, and the runner that has it."""

    implementation: registry.Implementation
    seat: Seat
    table: Mapping[str, int] | None = None
    """Its launch table, where it is not the language's own."""
    name: str = ""
    """Its name in the race; its id by default."""
    count: int = 1
    """Launches of a turn."""
    returns: bool = False
    """Whether it returns results, which are copied after the clock."""
    looks: int = 0
    """How often the judge has looked whether it works on the GPU while its process is stopped."""
    late: int = 0
    """How often other work was there then."""
    orders: list[tuple[list[int], tuple[int, ...]]] = field(default_factory=list)
    """Turns that stay arranged: the sets in order, and the link."""

    @property
    def id(self) -> str:
        return self.name or self.implementation.id

    def order(self, sets: Sets, *, kept: bool, linked: bool) -> tuple[list[int], tuple[int, ...]]:
        """The sets of a turn in a random order, and its link. No launch can do a later one's work."""
        if kept and self.count > _REORDERED and len(self.orders) == _ORDERS:
            return random.choice(self.orders)
        order = random.sample(range(sets.count), self.count)
        x, link = sets.inputs[0], tuple[int, ...]()
        if linked and self.count > 1 and not sets.problem.operation.related and x.elements:
            place = random.randrange(1, self.count)
            link = place, order[random.randrange(place)], min(x.elements, x.shape[-1] if x.shape else 1, _LINKED)
        self.orders = [*self.orders[-_ORDERS + 1 :], (order, link)]
        return order, link

    def ask(self, call: str, **arguments: Any) -> Any:
        """Call a method of its runner for this lane."""
        return self.seat.ask(call, id=self.id, **arguments)

    def bind(self) -> dict[str, Any]:
        """See :meth:`kernelzoo.measure.runner.Runner.bind`."""
        found = self.ask("bind", table=self.table)
        match found:
            case {"first_call": float() | None, "submit": float() | None, "form": str(), "returns": bool()}:
                return dict(found)
        raise DiedError(self.id, f"something else answered for bind: {str(found)[:80]}")

    def launch(self, numbers: Sequence[int]) -> None:
        """Launch on these sets in this order, and wait."""
        self.ask("launch", numbers=numbers)

    def turn(self, times: int = 1) -> tuple[float, float]:
        """Seconds of a turn as the runner says, and of the request by the judge's clock."""
        return float(self.ask("turn", times=times)), self.seat.took

    def once(self) -> float:
        """Seconds of the turn by the judge's clock alone."""
        self.ask("once")
        return self.seat.took
