"""The colour and symbol of each implementation on the page, and the order of problems."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelzoo import packages, registry
from kernelzoo.report.results import BASELINE, Problem, Row

# A hue for each backend, in three shades from dark to light. All have a contrast of at least 3 to white and to the
# page's dark background. Two shades of different lightness differ for people who see no red, no green or no colour.
# Built-in backends take hues in the registry's order, and others take the spare hues.
GREYS = ("#656565", "#7c7c7c", "#949494")
HUES = (
    ("#117530", "#328d46", "#4da65d"),  # green
    ("#9c5029", "#b7673f", "#d27f55"),  # orange
    ("#7e6101", "#9a7700", "#b68f16"),  # gold
    ("#6e53b7", "#876ad1", "#a182eb"),  # violet
    ("#097170", "#008a89", "#09a5a3"),  # teal
    ("#616a2f", "#798144", "#91995b"),  # olive
    ("#a64074", "#c0588b", "#db71a4"),  # pink
    ("#0269aa", "#0e80ce", "#0a99f5"),  # blue
)
OWN = sorted(set(packages.BUILT_IN) - {registry.BASELINE})
COLOURS = {registry.BASELINE: GREYS, **dict(zip(OWN, HUES, strict=False))}
SPARE_COLOURS = (
    ("#b13d3b", "#cc5650", "#e96e67"),  # red
    ("#7e5f40", "#967656", "#b08e6c"),  # brown
    ("#4d6e31", "#648547", "#7c9e5d"),  # lime
)
SYMBOLS = (
    *("circle", "square", "triangle", "diamond", "star", "wye", "cross", "times", "down", "left", "right", "spark"),
    *("hourglass", "bowtie", "bar", "dash", "roof", "valley", "lens", "half", "corner", "tee"),
)
"""Shapes that web/charts.js draws, each unlike the others at the size of a point."""

SHADES = (1, 0, 2)
"""The indices of a hue's shades, in the order of their use."""


@dataclass(frozen=True)
class MarkerStyle:
    """An implementation's colour and symbol."""

    colour: str
    symbol: str


def marker_styles(rows: Iterable[Row]) -> Mapping[str, MarkerStyle]:
    """Return the colour and symbol of each implementation, by id. They depend only on the set of implementations.

    Up to 66 implementations of an operation have different styles: symbol or lightness differs. Further styles repeat.
    """
    ids = sorted(
        {(row.op, row.backend, row.variant) for row in rows},
        key=lambda i: (i[0], i[2] != "auto" and f"{i[1]}/{i[2]}" != BASELINE, i[1], i[2]),
    )
    turns = {backend: turn for turn, backend in enumerate(sorted({backend for _, backend, _ in ids}))}
    spare = itertools.cycle(SPARE_COLOURS)
    colours = {backend: COLOURS.get(backend) or next(spare) for backend in turns}
    found: dict[str, MarkerStyle] = {}
    for op, of_op in itertools.groupby(ids, lambda i: i[0]):
        taken: set[tuple[str, int]] = set()
        for _, backend, variant in of_op:
            turned = [SYMBOLS[(turns[backend] + place) % len(SYMBOLS)] for place in range(len(SYMBOLS))]
            pairs = [(symbol, shade) for shade in SHADES for symbol in turned]  # a backend's own first symbol
            pair = next((pair for pair in pairs if pair not in taken), pairs[len(found) % len(pairs)])
            taken.add(pair)
            found[f"{backend}/{op}/{variant}"] = MarkerStyle(colours[backend][pair[1]], pair[0])
    return found


def sort_by_length(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by row length first, because row length affects a kernel's speed more than the number of rows."""
    return sorted(problems, key=lambda problem: (problem.reduced_length, math.prod(problem.shape), problem))
