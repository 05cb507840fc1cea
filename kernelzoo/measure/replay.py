"""Passes samples measured elsewhere to pytest-benchmark's statistics."""

from __future__ import annotations


class Replay:
    """A timer that replays samples: load them, then time ``step`` once for each."""

    def __init__(self) -> None:
        self.now = 0.0
        self.samples: list[float] = []

    def __call__(self) -> float:
        return self.now

    def step(self) -> None:
        self.now += self.samples.pop(0)
