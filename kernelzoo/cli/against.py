"""Comparison of new results with older results files. Rows must have the same card, clock and cache state."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelzoo.cli.options import OptionError
from kernelzoo.report import notes
from kernelzoo.report.reading import load
from kernelzoo.report.results import Problem, Row

Json = dict[str, Any]


@dataclass(frozen=True)
class RowChange:
    """A new result compared with an older file's row. If the two can't be compared, ``refusal`` gives the reason."""

    id: str
    problem: str
    ratio: float | None = None
    """The new time / the time in the file."""
    interval: tuple[float, float] | None = None
    slower: bool = False
    """Whether the new time is longer than allowed, or missing although the file has a time."""
    unclear: bool = False
    refusal: str = ""

    @property
    def words(self) -> str:
        return self.refusal or ("SLOWER" if self.slower else "UNCLEAR" if self.unclear else "ok")


class OldResults:
    """The rows of older results files. If several files have the same row, its samples are pooled. ``name`` is the
    word for these files in messages, such as "commit". Raises ResultsError for a file without results."""

    def __init__(self, *paths: Path, name: str = "file") -> None:
        self.name = name
        self._rows: dict[tuple[str, Problem], list[Row]] = {}
        for row in (row for path in paths for group in load([path]).groups for row in group.rows):
            self._rows.setdefault((row.id, row.problem), []).append(row)

    def compare(self, problem: Json, timed: Sequence[Json], failed: Sequence[Json], allowed: float) -> list[RowChange]:
        """Compare new results on one problem with the older ones. ``problem``: its description, see
        :func:`kernelzoo.cli.rows.describe_problem`. ``allowed``: the largest slowdown that is no regression."""
        key = Problem.of(problem)
        found = [
            self._judge_row(entry, problem["problem"], self._rows.get((entry["extra_info"]["id"], key), []), allowed)
            for entry in timed
        ]
        gone = [failure["id"] for failure in failed if (failure["id"], key) in self._rows]
        why = f"has a result in the {self.name}, and none now"
        return found + [RowChange(id, problem["problem"], slower=True, refusal=why) for id in gone]

    def _judge_row(self, entry: Json, problem: str, rows: Sequence[Row], allowed: float) -> RowChange:
        from kernelzoo.measure import statistics

        info = entry["extra_info"]
        id, here = info["id"], (info["device"], info["clock"], info["cache"])

        def refuse(reason: str) -> RowChange:
            return RowChange(id, problem, refusal=reason)

        if not rows:
            return refuse(f"the {self.name} has no such row")
        alike = [row for row in rows if (row.device, row.clock, row.cache) == here]
        if not alike:
            there = " and ".join(dict.fromkeys(_conditions_text(row.device, row.clock, row.cache) for row in rows))
            return refuse(f"can't be compared: the {self.name} has {there}, here it is {_conditions_text(*here)}")
        card = (info.get("gpu") or {}).get("uuid") or ""
        alike.sort(key=lambda row: row.gpu != card)
        if card and alike[0].gpu not in ("", card):
            was = f"the {self.name}'s was measured on card {alike[0].gpu}"
            return refuse(f"can't be compared: {was}, this on {card}")
        alike = [row for row in alike if row.gpu == alike[0].gpu]
        times = [time for row in alike for time in row.times]
        if reason := statistics.noisy(times, allowed):
            return refuse(f"the {self.name}'s row is too noisy to compare with: {reason}")
        disturbed = notes.TILDE in [*notes.marks(info["flags"]), *(mark for row in alike for mark in row.marks)]
        told = statistics.regression(entry["stats"]["data"], times, allowed=allowed, disturbed=disturbed)
        return RowChange(id, problem, told.ratio.mid, (told.ratio.low, told.ratio.high), told.slower, told.unclear)


def parse_percent_or_fraction(text: str) -> float:
    """Parse a fraction of 1, written as ``"5%"`` or ``"0.05"``, into 0.05. Raises OptionError."""
    try:
        given = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        given = -1.0
    if not 0 <= given < 1:
        raise OptionError(f"no share {text!r}; write it like 5% or 0.05")
    return given


def _conditions_text(device: str, clock: str, cache: str) -> str:
    return f"{device} by the {clock} clock, cache {cache}"
