"""The colour and symbol of each implementation on the page, and the order of problems."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelzoo import packages, registry
from kernelzoo.report.results import BASELINE, Problem, Row

# A hue for each backend, and shades for its variants; the first is for auto or the baseline. All have a contrast of at
# least 3 to white and to the page's dark background. The baseline is grey. Built-in backends take hues in the
# registry's order, and others take the spare hues.
GREYS = ("#7a7a7a", "#988d7a", "#626c7e", "#859382", "#746677", "#98807c", "#607a7b")
HUES = (
    ("#1b9247", "#04a786", "#547a00", "#749f2b", "#0c7e65", "#019f68", "#3d892a"),  # green
    ("#c4530f", "#c87a00", "#b63a3d", "#df605f", "#995b00", "#cb6700", "#c0482a"),  # orange
    ("#a87700", "#919534", "#975d04"),  # gold
    ("#8a63d2", "#6d55c0", "#a07bdc"),  # violet
    ("#008c8d", "#349db6", "#087e66", "#40a289"),  # teal
    ("#a87700", "#919534", "#975d04"),  # gold
    ("#bc4891", "#e0597d", "#9841a3", "#be66ca", "#b7325b", "#d1528b", "#ad459b"),  # pink
    ("#287ccf", "#7385e9", "#03769d", "#009cce", "#5361c1", "#5283e0", "#007bbc"),  # blue
)
OWN = sorted(set(packages.BUILT_IN) - {registry.BASELINE})
COLOURS = {registry.BASELINE: GREYS, **dict(zip(OWN, HUES, strict=False))}
SPARE_COLOURS = (
    ("#d6404a", "#e0527a", "#b8323c"),  # red
    ("#8f6a45", "#a37b52", "#866646"),  # brown
    ("#5f9a1e", "#7d8a00", "#6e7200"),  # lime
)
# A symbol tells a variant from its siblings without colour. The names are Observable Plot's.
SYMBOLS = ("circle", "square", "triangle", "diamond", "star", "wye", "cross")


@dataclass(frozen=True)
class Look:
    """An implementation's colour and symbol."""

    colour: str
    symbol: str


def looks(rows: Iterable[Row]) -> Mapping[str, Look]:
    """A look for each implementation, by id. It depends only on the set of implementations."""
    ids = sorted(
        {(row.backend, row.op, row.variant) for row in rows},
        key=lambda i: (i[0], i[1], f"{i[0]}/{i[2]}" != BASELINE, i[2] != "auto", i[2]),
    )
    spare = iter(itertools.cycle(SPARE_COLOURS))
    found: dict[str, Look] = {}
    for turn, (backend, of_backend) in enumerate(itertools.groupby(ids, lambda i: i[0])):
        shades = COLOURS.get(backend) or next(spare)
        for op, of_op in itertools.groupby(of_backend, lambda i: i[1]):
            for place, (_, _, variant) in enumerate(of_op):
                # All symbols once, then again in the next shade, so the first dozens differ. Each backend begins with
                # another symbol.
                shade = (place + place // len(SYMBOLS)) % len(shades)
                found[f"{backend}/{op}/{variant}"] = Look(shades[shade], SYMBOLS[(turn + place) % len(SYMBOLS)])
    return found


def by_length(problems: Iterable[Problem]) -> list[Problem]:
    """Short rows before long ones: length says more about a kernel's speed than the number of rows."""
    return sorted(problems, key=lambda problem: (problem.length, math.prod(problem.shape), problem))


def ceiling(rows: Iterable[Row]) -> float | None:
    """The measured bandwidth; of several runs, the median."""
    return _median(row.ceiling_gb_per_s for row in rows)


def floor(rows: Iterable[Row]) -> float | None:
    """The time of the smallest launch in µs; of several runs, the median."""
    return _median(row.floor_us for row in rows)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
