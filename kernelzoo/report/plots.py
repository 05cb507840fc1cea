"""The page's figure: GB/s, and below it the share of the limit, against size; a line for each implementation."""

from __future__ import annotations

import html
import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kernelzoo import packages, registry
from kernelzoo.report.results import BASELINE, Problem, Row, Selection
from kernelzoo.report.table import significant

# A backend's hue and the shades of its variants, the first for auto (of the baseline: for what it is measured by). All
# have a contrast of 3 or more both to white and to the page's dark background, so that a line keeps its colour whatever
# the reader prefers. The baseline is grey, the others of the zoo take the hues in the registry's order, and a backend
# from another package takes the next spare hue.
GREYS = ("#7a7a7a", "#988d7a", "#626c7e", "#859382", "#746677", "#98807c", "#607a7b")
HUES = (
    ("#1b9247", "#04a786", "#547a00", "#749f2b", "#0c7e65", "#019f68", "#3d892a"),  # green
    ("#c4530f", "#c87a00", "#b63a3d", "#df605f", "#995b00", "#cb6700", "#c0482a"),  # orange
    ("#bc4891", "#e0597d", "#9841a3", "#be66ca", "#b7325b", "#d1528b", "#ad459b"),  # pink
    ("#287ccf", "#7385e9", "#03769d", "#009cce", "#5361c1", "#5283e0", "#007bbc"),  # blue
)
OWN = sorted(set(packages.BUILT_IN) - {registry.BASELINE})
COLOURS = {registry.BASELINE: GREYS, **dict(zip(OWN, HUES, strict=False))}
SPARE_COLOURS = (
    ("#967600", "#919534", "#975d04", "#be7f32", "#6e7200", "#97871d", "#976b03"),
    ("#008c8d", "#349db6", "#087e66", "#40a289", "#00798f", "#1d97a3", "#00877c"),
)
# Beside the shade, a variant's dash and marker tell it from its siblings, without colour too.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "star")

GREY = "#808080"
CROWDED, MARKERS = 40, 14
"""A line with more points than CROWDED has MARKERS markers only, so that they stay apart."""

LABELS = 24
"""Shapes named along an axis, at most: as many as a telephone's screen holds side by side."""

UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass(frozen=True)
class Style:
    """How an implementation looks in every figure of the page."""

    colour: str
    dash: str
    symbol: str


def styles(rows: Iterable[Row]) -> Mapping[str, Style]:
    """A style for each implementation, by id. It depends only on which implementations there are."""
    ids = sorted(
        {(row.backend, row.op, row.variant) for row in rows},
        key=lambda i: (i[0], i[1], f"{i[0]}/{i[2]}" != BASELINE, i[2] != "auto", i[2]),
    )
    spare = iter(itertools.cycle(SPARE_COLOURS))
    found: dict[str, Style] = {}
    for backend, of_backend in itertools.groupby(ids, lambda i: i[0]):
        shades = COLOURS.get(backend) or next(spare)
        for op, of_op in itertools.groupby(of_backend, lambda i: i[1]):
            for place, (_, _, variant) in enumerate(of_op):
                found[f"{backend}/{op}/{variant}"] = Style(
                    shades[place % len(shades)], DASHES[place % len(DASHES)], SYMBOLS[place % len(SYMBOLS)]
                )
    return found


def by_length(problems: Iterable[Problem]) -> list[Problem]:
    """Short rows before long ones: the length says more about a kernel's speed than the number of rows."""
    return sorted(problems, key=lambda problem: (problem.length, math.prod(problem.shape), problem))


def points(selection: Selection) -> list[Problem]:
    """The problems that the figure shows: the longest sweep, or all of them where there is none."""
    return by_length(selection.sweep() if selection.is_sweep else selection.problems)


def x_title(selection: Selection) -> str:
    if selection.is_sweep:
        return f"columns ({selection.sweep()[0].shape[0]} rows)"
    return "shape"


def draw(selection: Selection, styles: Mapping[str, Style], shown: Collection[str]) -> go.Figure:
    """The figure of one operation and dtype; the lines of implementations that are not in ``shown`` start hidden.

    A sweep is drawn on a logarithmic axis of columns; other shapes stand side by side.
    """
    problems = points(selection)
    along: list[float]
    if selection.is_sweep:
        along = [problem.length for problem in problems]
        span = [along[0] / 1.06, along[-1] * 1.06]
        axis = {"type": "log", "range": [math.log10(end) for end in span]} | _binary_ticks(problems)
    else:
        along = list(range(len(problems)))
        span = [-0.5, len(problems) - 0.5]
        axis = {"range": span} | _named_ticks(problems)
    with_limit = any(row.of_limit is not None for row in selection.rows)
    figure = make_subplots(
        rows=1 + with_limit, shared_xaxes=True, vertical_spacing=0.07, row_heights=[0.55, 0.45][: 1 + with_limit]
    )
    _limits(figure, selection, problems, along, span)
    shares = [row.of_limit for row in selection.rows if row.of_limit is not None]
    for name in selection.names:
        rows = [selection.cells.get((problem, name)) for problem in problems]  # None is a gap in the line
        known = [row for row in rows if row is not None]
        if not known:
            continue
        style = styles[known[0].id]
        marker: dict[str, object] = {"symbol": style.symbol, "size": 7, "color": style.colour}
        if len(problems) > CROWDED:
            marker["maxdisplayed"] = MARKERS
        look = {
            "name": name,
            "meta": name,
            "x": along,
            "mode": "lines+markers",
            "line": {"color": style.colour, "dash": style.dash, "width": 2.6 if name in shown else 1.6},
            "marker": marker,
            "customdata": [None if row is None else _hover(selection, row) for row in rows],
            "hovertemplate": "%{customdata}<extra></extra>",
            "visible": name in shown,
        }
        figure.add_trace(go.Scatter(y=[None if row is None else row.gb_per_s for row in rows], **look), row=1, col=1)
        if any(row.of_limit is not None for row in known):
            share = [None if row is None else row.of_limit for row in rows]
            figure.add_trace(go.Scatter(y=share, **look), row=2, col=1)
    lines = {"gridcolor": "rgba(128,128,128,0.25)", "linecolor": GREY, "zeroline": False, "automargin": True}
    figure.update_layout(
        template="none",
        autosize=True,
        showlegend=False,
        hovermode="closest",
        hoverlabel={"align": "left"},
        font={"family": "system-ui, sans-serif", "size": 13},
        margin={"l": 56, "r": 12, "t": 28, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": GREY},
    )
    figure.update_xaxes(**axis, **lines)
    figure.update_xaxes(title_text=x_title(selection), row=1 + with_limit, col=1)
    figure.update_yaxes(type="log", title_text="GB/s", **_decimal_ticks(selection), **lines, row=1, col=1)
    if with_limit:
        top = 1.06 * max([1.0, *shares])
        figure.update_yaxes(title_text="share of limit", tickformat=".0%", range=[0, top], **lines, row=2, col=1)
    return figure


def ceiling(rows: Iterable[Row]) -> float | None:
    """The measured bandwidth; of several runs, the median."""
    known = [row.ceiling_gb_per_s for row in rows if row.ceiling_gb_per_s is not None]
    return statistics.median(known) if known else None


def _limits(
    figure: go.Figure, selection: Selection, problems: list[Problem], along: list[float], span: list[float]
) -> None:
    """Draw the measured ceiling and the limit."""
    level = ceiling(selection.rows)
    look = {"mode": "lines", "hoverinfo": "skip"}
    if level is not None:
        line = {"color": GREY, "dash": "dash", "width": 1.4}
        text: dict[str, object] = {
            "mode": "lines+text",
            "text": ["", f"measured memory ceiling, {significant(level)} GB/s", ""],
        }
        text |= {"textposition": "top right", "cliponaxis": False, "textfont": {"size": 12}}
        figure.add_trace(
            go.Scatter(x=[span[0], along[0], span[1]], y=[level] * 3, line=line, **look | text), row=1, col=1
        )
    of_problem: dict[Problem, list[float]] = {}
    for row in selection.rows:
        if row.of_limit is not None:
            of_problem.setdefault(row.problem, []).append(row.gb_per_s / row.of_limit)
    limit = [statistics.median(of_problem[problem]) if problem in of_problem else None for problem in problems]
    if any(speed is not None for speed in limit):
        line = {"color": GREY, "dash": "dot", "width": 1.4}
        figure.add_trace(go.Scatter(x=along, y=limit, line=line, **look), row=1, col=1)
        figure.add_trace(go.Scatter(x=span, y=[1, 1], line=line, **look), row=2, col=1)


def _hover(selection: Selection, row: Row) -> str:
    """Escaped, since Plotly reads some HTML."""
    lines = [row.name, f"{row.problem}", f"{significant(row.microseconds)} µs, {significant(row.gb_per_s)} GB/s"]
    if row.of_limit is not None:
        lines.append(f"{row.of_limit:.0%} of the limit")
    ratio = selection.ratio(row)
    if ratio is not None and row.name != selection.baseline:
        lines.append(f"{significant(ratio)} × the time of {selection.baseline}")
    return "<br>".join(map(html.escape, [*lines, *row.flags]))


def _binary_ticks(problems: list[Problem]) -> dict[str, object]:
    """Powers of two, no more than fit a telephone's screen; plotly's own ticks if there would be fewer than two."""
    first, last = (problems[0].length - 1).bit_length(), problems[-1].length.bit_length() - 1
    step = max(1, -(-(last - first + 1) // 10))
    exponents = range(-(-first // step) * step, last + 1, step)
    if len(exponents) < 2:
        return {}
    labels = [f"{2 ** (exponent % 10)}{UNITS[exponent // 10]}" for exponent in exponents]
    return {"tickvals": [2**exponent for exponent in exponents], "ticktext": labels, "tickangle": 0}


def _named_ticks(problems: list[Problem]) -> dict[str, object]:
    step = -(-len(problems) // LABELS)
    places = range(0, len(problems), step)
    return {
        "tickvals": list(places),
        "ticktext": [str(problems[i]) for i in places],
        "tickangle": -60,
        "tickfont": {"size": 11},
    }


def _decimal_ticks(selection: Selection) -> dict[str, object]:
    """As many digits of each power of ten as there is room for. plotly's own ticks would be 2 for 200, or overlap."""
    speeds = [row.gb_per_s for row in selection.rows] + [ceiling(selection.rows) or selection.rows[0].gb_per_s]
    first, last = math.log10(min(speeds)), math.log10(max(speeds))
    decades = last - first
    digits = (1, 1.5, 2, 3, 4, 5, 7) if decades < 1.5 else (1, 2, 5) if decades < 4 else (1,)
    ticks = [d * 10.0**exponent for exponent in range(math.floor(first) - 1, math.ceil(last) + 1) for d in digits]
    return {"tickvals": ticks, "ticktext": [f"{tick:.10g}" for tick in ticks]}
