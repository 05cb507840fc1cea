"""How samples that were measured elsewhere reach pytest-benchmark's own statistics."""

from __future__ import annotations


class Replay:
    """A timer whose time passes in samples already measured: load them, then time ``step`` once for each."""

    def __init__(self) -> None:
        self.now = 0.0
        self.samples: list[float] = []

    def __call__(self) -> float:
        return self.now

    def step(self) -> None:
        self.now += self.samples.pop(0)
