"""The picture of a race: how many times as fast as torch each implementation is, a bar each."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from kernelzoo import packages
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.report.figure import COLOURS, SPARE_COLOURS, STYLE
from kernelzoo.report.figure import save as save_figure
from kernelzoo.report.notes import TILDE
from kernelzoo.report.results import Group, Results


def save(results: Results, path: Path) -> None:
    """Draw the first device's results as ``path`` with .png and .svg."""
    with rc_context(STYLE):
        save_figure(draw(results.groups[0]), path)


def speeds(group: Group, op: str) -> dict[str, float]:
    """Times as fast as torch eager, in the geometric mean over the problems that all took, the fastest first."""
    selection = group.select(op)
    taken = {name: {row.problem for row in selection.of(name)} for name in selection.names}
    means = {name: selection.mean_ratio(name) for name in taken if taken[name] == taken.get(selection.baseline)}
    return dict(sorted(((name, 1 / mean) for name, mean in means.items() if mean), key=lambda item: -item[1]))


def said(results: Results) -> list[str]:
    """The same in words: a line for each operation."""
    group = results.groups[0]
    ops = dict.fromkeys(row.op for row in group.rows)
    told = {op: ", ".join(f"{_label(name, group, op)} {x:.2f}" for name, x in speeds(group, op).items()) for op in ops}
    lines = [f"{op}, times as fast as torch eager: {words}" for op, words in told.items() if words]
    return [*lines, *([_NOTE] if any(TILDE in line for line in lines) else [])]


def draw(group: Group) -> Figure:
    """A panel for each operation; the caption says the device, the dtype, the number of problems and the day.

    A tilde marks what other work disturbed. What did not take every shape is left out, and named.
    """
    ops = list(dict.fromkeys(row.op for row in group.rows))
    of = {op: speeds(group, op) for op in ops}
    figure = Figure(figsize=(7.2, 0.9 + 0.32 * max(map(len, of.values())) + 0.5), layout="constrained")
    for op, axes in zip(ops, figure.subplots(1, len(ops), squeeze=False)[0], strict=True):
        names = list(of[op])[::-1]
        colours = [COLOURS.get(name.partition("/")[0], SPARE_COLOURS[0]) for name in names]
        labels = [_label(name, group, op) for name in names]
        bars = axes.barh(labels, [of[op][name] for name in names], color=colours)
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.set_title(op)
        axes.set_xlabel("times as fast as torch eager")
        axes.margins(x=0.15)
        axes.grid(visible=False, axis="y")
    rows = [row for row in group.rows if row.op == ops[0]]
    count, dtypes = len({row.problem for row in rows}), ", ".join(sorted({row.problem.dtype for row in rows}))
    notes = [f"{group.device}: {count} shapes, {dtypes}, {group.cache} cache, {rows[0].run.date[:10]}"]
    short = {f"{_label(name, group, op)} ({op})" for op in ops for name in {*group.select(op).names} - {*of[op]}}
    notes += [f"not on every shape: {', '.join(sorted(short))}"] if short else []
    notes += [_NOTE] if any(DISTURBED in row.flags for row in group.rows) else []
    figure.suptitle("\n".join(notes), fontsize=10)
    return figure


_NOTE = f"{TILDE} other work disturbed it"


def _label(name: str, group: Group, op: str) -> str:
    backend, _, variant = name.partition("/")
    title = packages.LANGUAGES.get(backend, backend)
    disturbed = any(DISTURBED in row.flags for row in group.select(op).of(name))
    return (title if variant == "auto" else f"{title} {variant}") + (f" {TILDE}" if disturbed else "")
