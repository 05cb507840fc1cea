"""Checks claimed samples against the guard's own clock.

The guard hears when a turn begins and ends, late on a busy machine, so a single turn proves nothing. But no turn takes
less than claimed. If each of an implementation's turns took far longer than claimed, the claim is false.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

_TIMES, _LATE, _FEWEST = 3.0, 10e-3, 3
"""A claim is false if each of this many turns took over three times as long, plus 10 ms."""


class Turns:
    """The turns of one race, by implementation.

    >>> turns = Turns()
    >>> turns.doubt("mine/softmax/only", [1e-6])
    'the guard has not seen the turns of these samples'
    """

    def __init__(self) -> None:
        self._began: tuple[str, float] | None = None
        self._claims: dict[str, list[float]] = {}
        self._false: dict[str, list[tuple[float, float]]] = {}

    def heard(
        self, progress: Callable[[str, str], None], more: Callable[[], dict[str, Any]]
    ) -> Callable[[str, str], None]:
        """A progress listener that records turns, and passes on all else. ``more`` gives the data of the last
        message."""

        def listen(stage: str, id: str) -> None:
            now = time.perf_counter()
            match more().get("turn", ""):
                case None:
                    self._began = id, time.perf_counter()
                case [int() | float() as sample, int() as launches]:
                    began, self._began = self._began, None
                    self._add(id, sample, launches, now - began[1] if began is not None and began[0] == id else 0.0)
                case _:
                    progress(stage, id)

        return listen

    def _add(self, id: str, sample: float, launches: int, took: float) -> None:
        claims, false = self._claims.setdefault(id, []), self._false.setdefault(id, [])
        claims.append(sample)
        claimed = sample * launches
        if not took <= _TIMES * claimed + _LATE:
            false.append((claimed, took))

    def doubt(self, id: str, samples: Sequence[float]) -> str:
        """Why the samples in an answer can't be true, or ""."""
        claims, false = self._claims.get(id, []), self._false.get(id, [])
        if not set(samples) <= set(claims) or len(samples) > len(claims):
            return "the guard has not seen the turns of these samples"
        if _FEWEST <= len(false) == len(claims):
            claimed, took = min(false, key=lambda turn: turn[1] / max(turn[0], 1e-9))
            return f"a turn said to take {claimed * 1e3:.2f} ms took {took * 1e3:.0f} ms by the guard's clock"
        return ""
