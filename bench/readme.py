"""The README's picture, drawn for light and for dark pages, and its table, both from what bench/results/ holds.

``python bench/records.py pages`` calls this beside all other pages.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelzoo.files import write_atomically
from kernelzoo.report import score, writing
from kernelzoo.report.reading import load
from kernelzoo.report.results import Results
from kernelzoo.report.table import Cell, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
PICTURE = ROOT / "docs" / "records"
PACKAGES = ("python", "torch", "triton", "cupy-cuda13x", "numba-cuda", "driver")
LEFT_OUT = ("torch/auto", score.ZOO, score.OTHERS, "tilegym/chunked", "tilegym/tma", "liger/cu")
"""Rows of the score table that the README leaves out: how they begin. The pages of the records have them."""

DARK: dict[Any, Any] = {"text.color": "#e6edf3", "axes.labelcolor": "#e6edf3", "axes.edgecolor": "#8b949e"}
DARK |= {"xtick.color": "#e6edf3", "ytick.color": "#e6edf3"}
SWAPPED = {"#000000": "#e6edf3", "black": "#e6edf3", "#dddddd": "#30363d", "#777777": "#8b949e", "white": "#0d1117"}
SWAPPED["#0072B2"] = "#3c9fe0"
"""Colours of the light picture that a dark page would swallow, and what takes their place."""


def page(path: Path, files: Sequence[str], check: bool) -> bool:
    """Write the README's table and picture, or only look whether the table would change. True if it would."""
    made, changed = insert(path.read_text(encoding="utf-8"), files, path.name)
    if check:
        return bool(changed)
    draw_all()
    path.write_text(made, encoding="utf-8")
    return False


def insert(document: str, files: Sequence[str], where: str) -> tuple[str, list[str]]:
    """The document with its table made of these results, and the names of the blocks that this changes."""
    results = load([Path(file) for file in files])
    return writing.insert(document, {"readme": table(results)}, where)


def table(results: Results) -> str:
    """The score of each implementation by operation, below what was measured with what: ordered by the first
    operation as the report orders it, then by the next, with the copy on top."""
    scores: dict[str, dict[str, str]] = {}
    (group,) = results.groups
    ops = sorted(group.operations(), reverse=True)
    for op in ops:
        made = score.score_table(group, op)
        for name, mean, *_, problems in () if made is None else made.rows:
            took, _, of = problems.text.partition(" of ")
            scores.setdefault(name.text, {})[op] = mean.text + ("" if took == of else f" ({problems.text})")
    kept = [(name, held) for name, held in scores.items() if not name.startswith(LEFT_OUT)]
    kept.sort(key=lambda item: item[0] != score.COPY)
    lines = [[Cell(name), *(Cell(held.get(op, "-")) for op in ops)] for name, held in kept]
    run, rows = max(group.runs(), key=lambda item: item[0].date)
    versions = dict(rows[0].versions)
    said = ", ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
    again = "".join(f" ({of}: {when[:10]})" for held, _ in group.runs() for of, when in held.again)
    caption = f"{group.device}; {said}; {run.date[:10]}{again}; geometric mean of limit / time."
    return "\n\n".join((caption, Table(["implementation", *ops], lines).markdown()))


def draw(results: Results, dark: bool) -> Figure:
    """The sweep, as ``kernelzoo report`` draws it, in the colours of the page that it stands on."""
    from matplotlib import rc_context

    from kernelzoo.report import figure

    (group,) = results.groups
    colours: dict[Any, Any] = {"figure.facecolor": "none", "axes.facecolor": "none", **(DARK if dark else {})}
    with rc_context(colours):
        shown = tuple(row for row in group.rows if not row.name.startswith(LEFT_OUT))
        made = figure.draw(replace(group, rows=shown), "softmax", "float32")
    if dark:
        for artist, what in itertools.product(made.findobj(), ("color", "markerfacecolor", "markeredgecolor")):
            colour = getattr(artist, f"get_{what}", lambda: None)()
            if isinstance(colour, str) and colour in SWAPPED:
                getattr(artist, f"set_{what}")(SWAPPED[colour])
    return made


def draw_all() -> None:
    """Draw the picture anew; the same results give the same two files."""
    from matplotlib import rc_context

    from kernelzoo.report import figure

    results = load([RESULTS / "h200-sweep.json.gz"])
    for name in ("light", "dark"):
        with rc_context({**figure.STYLE, "svg.fonttype": "none", "font.family": "sans-serif"}):
            drawn = io.BytesIO()
            options: dict[str, Any] = {"metadata": {"Date": None}, "bbox_inches": "tight", "transparent": True}
            draw(results, name == "dark").savefig(drawn, format="svg", **options)
        write_atomically(PICTURE / f"sweep-{name}.svg", drawn.getvalue())


if __name__ == "__main__":
    draw_all()
