"""A figure of the page: its lines, its legend, and its description in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kernelzoo.report import plots
from kernelzoo.report.notes import TILDE
from kernelzoo.report.results import Selection


@dataclass(frozen=True)
class Key:
    """One implementation in the legend of a figure."""

    name: str
    style: plots.Style
    shown: bool


@dataclass(frozen=True)
class Plot:
    """A figure, and its description in words."""

    json: Markup
    label: str
    caption: str
    legend: Mapping[str, Sequence[Key]]
    """By backend."""


DASHES = {
    "solid": "none",
    "dash": "7 3",
    "dot": "2 2",
    "dashdot": "7 2 2 2",
    "longdash": "11 3",
    "longdashdot": "10 2 2 2",
}
"""plotly's dashes as SVG has them, for the legend."""

SYMBOLS = {
    "circle": "M13,6a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "square": "M13,2h8v8h-8z",
    "diamond": "M17,1l5,5l-5,5l-5,-5z",
    "triangle-up": "M17,1l5,9h-10z",
    "triangle-down": "M17,11l5,-9h-10z",
    "x": "M14,1l3,3l3,-3l2,2l-3,3l3,3l-2,2l-3,-3l-3,3l-2,-2l3,-3l-3,-3z",
    "star": "M17,0.5l1.5,3.8l4,0.2l-3.1,2.6l1.1,4l-3.5,-2.2l-3.5,2.2l1.1,-4l-3.1,-2.6l4,-0.2z",
}
"""plotly's markers as SVG has them, for the legend."""


def shown(selection: Selection) -> list[str]:
    """The implementations shown at first: the baseline and the auto of each backend; all, if these are fewer than
    two."""
    names = [name for name in selection.names if name == selection.baseline or name.endswith("/auto")]
    return names if len(names) > 1 else selection.names


def plot_of(selection: Selection, looks: Mapping[str, plots.Style]) -> Plot:
    visible = shown(selection)
    drawn = set(plots.points(selection))
    legend: dict[str, list[Key]] = {}
    for name in selection.names:
        rows = selection.of(name)
        if any(row.problem in drawn for row in rows):
            legend.setdefault(rows[0].backend, []).append(Key(name, looks[rows[0].id], name in visible))
    first = selection.rows[0]
    with_limit = any(row.of_limit is not None for row in selection.rows)
    what = "GB/s" + (" and share of the limit" if with_limit else "") + f" by {plots.x_title(selection)}"
    fastest = _fastest(selection, visible)
    caption = [f"{what[0].upper()}{what[1:]}; GB/s on a logarithmic scale."]
    if not selection.is_sweep:
        caption.append("From short rows to long ones.")
    if with_limit:
        caption.append("Dotted: the limit, which counts the smallest launch too.")
    off = [str(problem) for problem in selection.problems if problem not in drawn]
    if off:
        caption.append(f"Not of this sweep, and in the tables below: {', '.join(off)}.")
    caption.append(fastest)
    return Plot(
        json=Markup(plots.draw(selection, looks, visible).to_json()),
        label=f"{first.op}, {first.problem.dtype}: {what}, a line for each of {sum(map(len, legend.values()))} "
        f"implementations. {fastest} The numbers are in the tables below.",
        caption=" ".join(caption),
        legend=legend,
    )


def _fastest(selection: Selection, names: Sequence[str]) -> str:
    """How often each implementation is the fastest, in words."""
    wins, unsure = Counter[str](), 0
    for problem in selection.problems:
        found = (selection.cells.get((problem, name)) for name in names)
        rows = [row for row in found if row is not None and not row.breaks]
        if rows:
            wins[min(rows, key=lambda row: row.seconds).name] += 1
            unsure += any(TILDE in row.marks for row in rows)
    counts = ", ".join(f"{name} on {count}" for name, count in wins.most_common())
    but = f", {unsure} {TILDE} of them disturbed" if unsure else ""
    return f"Of those shown at first, the fastest: {counts} of {wins.total()} shapes{but}." if counts else ""
