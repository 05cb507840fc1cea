"""Entrants of a race, and the runners that have them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from kernelzoo import registry
from kernelzoo.measure.judge.memory import Sets
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.runner import Runner

_ORDERS, _REORDERED = 4, 64
"""A turn of at most _REORDERED launches has an order of its own; a longer one takes one of _ORDERS."""

_LINKED = 4096
"""Most elements that a link copies."""


class Seat(Protocol):
    """A runner as the judge sees it: in this process, or in its own, where it is stopped between requests."""

    @property
    def processes(self) -> Sequence[int | str]:
        """The processes that work for it."""

    def open(self, problem: Problem, memory: Any, timed: str) -> None: ...

    def release(self) -> None: ...

    def bind(self, id: str, table: Mapping[str, int] | None = None) -> dict[str, Any]: ...

    def launch(self, id: str, numbers: Sequence[int], other_stream: bool = False) -> None: ...

    def queued(self, id: str, source: int, other_stream: bool = False) -> None: ...

    def chain(self, id: str, links: int) -> None: ...

    def overwrite(self, id: str) -> None: ...

    def alone(self, id: str, number: int) -> None: ...

    def arrange(self, id: str, order: Sequence[int], link: Sequence[int] = (), delivered: bool = False) -> None: ...

    def turn(self, id: str, times: int = 1) -> tuple[float, float]:
        """Seconds of a turn as the runner says, and of the request by the judge's clock."""

    def empty(self) -> float: ...

    def more(self, id: str, seconds: float) -> None: ...

    def end(self, id: str) -> float: ...


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
    orders: list[tuple[list[int], tuple[int, ...]]] = field(default_factory=list)
    """Turns that stay arranged: the sets in order, and the link."""

    @property
    def id(self) -> str:
        return self.name or self.implementation.id

    def order(self, sets: Sets, *, kept: bool, linked: bool) -> tuple[list[int], tuple[int, ...]]:
        """The sets of a turn in a random order, and its link.

        The link changes an input in the middle of the turn, so that no launch can do the work of a later one. With
        ``kept``, long turns take one of a few orders, since each is arranged at some cost.
        """
        if kept and self.count > _REORDERED and len(self.orders) == _ORDERS:
            return random.choice(self.orders)
        order = random.sample(range(sets.count), self.count)
        x, link = sets.inputs[0], tuple[int, ...]()
        if linked and self.count > 1 and not sets.problem.operation.related and x.elements:
            place = random.randrange(1, self.count)
            link = place, order[random.randrange(place)], min(x.elements, x.shape[-1] if x.shape else 1, _LINKED)
        self.orders = [*self.orders[-_ORDERS + 1 :], (order, link)]
        return order, link

    def bind(self) -> dict[str, Any]:
        return self.seat.bind(self.id, self.table)

    def launch(self, numbers: Sequence[int], other_stream: bool = False) -> None:
        self.seat.launch(self.id, numbers, other_stream)

    def queued(self, source: int, other_stream: bool = False) -> None:
        self.seat.queued(self.id, source, other_stream)

    def chain(self, links: int) -> None:
        self.seat.chain(self.id, links)

    def overwrite(self) -> None:
        self.seat.overwrite(self.id)

    def alone(self, number: int) -> None:
        self.seat.alone(self.id, number)


class Here(Runner):
    """A runner in this process: for own kernels, where nothing needs to be kept apart."""

    processes: Sequence[int | str] = ("self",)

    def turn(self, id: str, times: int = 1) -> tuple[float, float]:  # type: ignore[override]
        started = perf_counter()
        seconds = super().turn(id, times)
        return seconds, perf_counter() - started

    def empty(self) -> float:  # type: ignore[override]
        started = perf_counter()
        super().empty()
        return perf_counter() - started


@dataclass
class Queued:
    """Turns of a lane back to back, for the meter of energy."""

    entrant: Entrant
    seconds: float

    def more(self) -> None:
        self.entrant.seat.more(self.entrant.id, self.seconds)

    def end(self) -> float:
        return self.entrant.seat.end(self.entrant.id)
