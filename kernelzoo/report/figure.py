"""The standard figure plots GB/s against the number of columns, with a line for each implementation.

If the problems are no sweep over columns, the figure has bars. A race has a picture of speeds relative to torch.
"""

import io
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from kernelzoo import registry
from kernelzoo.files import write_atomically
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.report import looks
from kernelzoo.report.results import ComparableRows, Selection
from kernelzoo.report.standing import DISTURBED_NOTE, speed_label, speeds
from kernelzoo.report.table import format_number

# Okabe and Ito's palette, which suits common colour blindness. Their yellow is too pale on white, so a brown and a
# violet replace it. The baseline is black. Built-in backends take colours in the registry's order (green, vermilion,
# brown, sky blue, orange, violet, purple, blue). Other backends take the spare colours.
_OKABE = ("#009E73", "#D55E00", "#8F6A45", "#56B4E9", "#E69F00", "#5B4FA2", "#CC79A7", "#0072B2")
COLOURS = {registry.BASELINE: "#000000", **dict(zip(looks.OWN, _OKABE, strict=False))}
SPARE_COLOURS = ("#7F7F7F", "#882255")

# Line and marker by a variant's position in its backend. The first, the baseline or auto, is a thick plain line.
LINES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 1, 2)))
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")

STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a device's name may hold a dollar sign
    "svg.hashsalt": "kernelzoo",  # makes the file reproducible
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}


def draw(group: ComparableRows, op: str, dtype: str) -> Figure:
    """Draw one operation and dtype: curves over its longest sweep, or if there is no sweep, bars for each problem."""
    selection = group.select(op, dtype)
    with rc_context(STYLE):
        return _draw_curves(group, selection) if selection.is_sweep else _draw_bars(group, selection)


def save(figure: Figure, path: Path) -> None:
    """Write ``path`` as .png and .svg. The same figure always gives the same SVG."""
    with rc_context(STYLE):
        for suffix, options in (("png", {"dpi": 150}), ("svg", {"metadata": {"Date": None}})):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=suffix, bbox_inches="tight", **options)
            write_atomically(path.with_name(f"{path.name}.{suffix}"), drawn.getvalue())


def _draw_curves(group: ComparableRows, selection: Selection) -> Figure:
    points = selection.sweep()
    columns = [problem.shape[1] for problem in points]
    figure = Figure(figsize=(9, 5.2))
    axes = figure.add_subplot()
    colours, seen = _backend_colours(selection), Counter[str]()
    for index, name in enumerate(selection.names):
        place = seen[backend := name.split("/")[0]]  # the number of earlier variants of its backend
        seen[backend] += 1
        rows = {problem.shape[1]: selection.rows_by_cell.get((problem, name)) for problem in points}
        speeds = [math.nan if row is None else row.gb_per_s for row in rows.values()]
        if all(map(math.isnan, speeds)):
            continue
        every = max(1, len(columns) // 12)
        axes.plot(
            columns,
            speeds,
            label=name,
            color=colours[backend],
            linestyle=LINES[place % len(LINES)],
            linewidth=2.4 if place == 0 else 1.4,
            marker=MARKERS[place % len(MARKERS)],
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            markevery=(index % every, every),  # staggered, so that markers of close lines stay apart
            zorder=2 if place == 0 else 3,  # draws auto below the variant it chose, whose markers show
        )
    ceiling = selection.ceiling_gb_per_s
    if ceiling is not None:
        label = f"measured ceiling, {format_number(ceiling)}"
        axes.axhline(ceiling, color="#777777", linestyle=(0, (6, 4)), linewidth=1.2, label=label)
    _scale_column_count_axis(axes, columns)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"columns ({points[0].shape[0]} rows)")
    axes.set_ylabel("GB/s")
    axes.set_title(_title(group, selection), loc="left", fontsize=11)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, handlelength=4, borderaxespad=0)
    return figure


def _draw_bars(group: ComparableRows, selection: Selection) -> Figure:
    """Draw a panel for each problem, with a labelled bar for each implementation."""
    problems, names = selection.problems, selection.names
    across = min(3, len(problems))
    down = -(-len(problems) // across)
    height = 0.5 + 0.24 * len(names)
    figure = Figure(figsize=(1.6 + 3.2 * across, 0.8 + (height + 0.3) * down), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    colours, ceiling = _backend_colours(selection), selection.ceiling_gb_per_s
    for panel, problem in zip(panels.flat, problems, strict=False):
        rows = [selection.rows_by_cell.get((problem, name)) for name in names]
        speeds = [0.0 if row is None else row.gb_per_s for row in rows]
        values = ["no result" if row is None else format_number(row.gb_per_s) for row in rows]
        bars = panel.barh(range(len(names)), speeds, color=[colours[name.split("/")[0]] for name in names], height=0.72)
        panel.bar_label(bars, values, padding=3, fontsize=8)
        panel.set_title(str(problem), fontsize=9, loc="left")
        panel.set_yticks(range(len(names)), names, fontsize=9)
        panel.grid(visible=False, axis="y")
        panel.tick_params(labelbottom=True, labelsize=9)
        if ceiling is not None:
            panel.axvline(ceiling, color="#777777", linestyle=(0, (6, 4)), linewidth=1.2)
    for panel in panels.flat[len(problems) :]:
        panel.set_visible(False)
    first = panels[0, 0]
    first.invert_yaxis()
    first.set_xlim(0, 1.18 * max([row.gb_per_s for row in selection.rows] + [ceiling or 0]))  # room for the values
    figure.supxlabel(
        "GB/s" + ("" if ceiling is None else f" (dashed: measured ceiling, {format_number(ceiling)})"), fontsize=9
    )
    figure.suptitle(_title(group, selection), fontsize=11)
    return figure


def _title(group: ComparableRows, selection: Selection) -> str:
    row = selection.rows[0]
    return f"{row.op}, {row.problem.dtype} on {group.label}"


def _backend_colours(selection: Selection) -> Mapping[str, str]:
    others = sorted({row.backend for row in selection.rows} - set(COLOURS))
    return COLOURS | {name: SPARE_COLOURS[i % len(SPARE_COLOURS)] for i, name in enumerate(others)}


def _scale_column_count_axis(axes: Axes, column_counts: list[int]) -> None:
    """Make the axis logarithmic if most column counts would crowd at its start; else leave it linear."""
    crowded = sum(count < column_counts[0] + (column_counts[-1] - column_counts[0]) / 10 for count in column_counts)
    if crowded > len(column_counts) / 2:
        axes.set_xscale("log", base=2)
        exponents = range((column_counts[0] - 1).bit_length(), column_counts[-1].bit_length())
        axes.xaxis.set_major_locator(FixedLocator([2.0**exponent for exponent in exponents]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.tick_params(axis="x", rotation=45)
    axes.set_xlim(column_counts[0], column_counts[-1])


@rc_context(STYLE)
def draw_speeds(group: ComparableRows) -> Figure:
    """Draw the speeds that ``kernelzoo race`` measured: a panel for each operation, a bar for each implementation.

    The caption gives the device, the dtype, the number of problems and the day. A tilde marks a result that other work
    disturbed. Implementations that did not take every shape have no bar; the caption names them.
    """
    ops = list(dict.fromkeys(row.op for row in group.rows))
    of = {op: speeds(group, op) for op in ops}
    figure = Figure(figsize=(7.2, 0.9 + 0.32 * max(map(len, of.values())) + 0.5), layout="constrained")
    for op, axes in zip(ops, figure.subplots(1, len(ops), squeeze=False)[0], strict=True):
        names = list(of[op])[::-1]
        colours = [COLOURS.get(name.partition("/")[0], SPARE_COLOURS[0]) for name in names]
        labels = [speed_label(name, group, op) for name in names]
        bars = axes.barh(labels, [of[op][name] for name in names], color=colours)
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.set_title(op)
        axes.set_xlabel("times as fast as torch eager")
        axes.margins(x=0.15)
        axes.grid(visible=False, axis="y")
    rows = [row for row in group.rows if row.op == ops[0]]
    count, dtypes = len({row.problem for row in rows}), ", ".join(sorted({row.problem.dtype for row in rows}))
    notes = [f"{group.device}: {count} shapes, {dtypes}, {group.cache} cache, {rows[0].run.date[:10]}"]
    short = {f"{speed_label(name, group, op)} ({op})" for op in ops for name in {*group.select(op).names} - {*of[op]}}
    notes += [f"not on every shape: {', '.join(sorted(short))}"] if short else []
    notes += [DISTURBED_NOTE] if any(DISTURBED in row.flags for row in group.rows) else []
    figure.suptitle("\n".join(notes), fontsize=10)
    return figure
