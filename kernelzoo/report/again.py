"""Rows of a results file that were measured later than the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelzoo.files import printable


@dataclass(frozen=True)
class Again:
    """Backends whose rows were measured later (bench/again.py), and torch's time then over its earlier time."""

    backends: tuple[str, ...]
    date: str
    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, one: Mapping[str, Any]) -> Again:
        """The facts in a results file."""
        yardstick = (float(one["yardstick"][name]) for name in ("mean", "least", "most"))
        return cls(tuple(map(printable, one["backends"])), printable(one["datetime"]), *yardstick)

    def __str__(self) -> str:
        return (
            f"{', '.join(self.backends)} measured again {self.date}, while torch/eager took {self.mean:.3f} of its "
            f"earlier time in the mean, {self.least:.2f} to {self.most:.2f}"
        )
