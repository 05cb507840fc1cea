"""The picture of docs/side-by-side.md: for each language a bar for each operation, its share of the limit.

A bar is the geometric mean of limit / time in bfloat16, over the problems that the language took; of several forms the
fastest counts. ``python bench/records.py pages`` calls this beside all other pages.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from kernelzoo.files import write_atomically
from kernelzoo.packages import LANGUAGES
from kernelzoo.report.reading import load
from kernelzoo.report.results import Problem, geometric_mean

DTYPE = "bfloat16"
OPS = (
    *("softmax", "min", "sum", "argmin", "logsumexp"),
    *("cross_entropy", "rms_norm", "layer_norm", "quantize_rows", "cumsum"),
)
SHOWN = {**{name: title for name, title in LANGUAGES.items() if name not in ("cpu", "torch")}, "torch": "torch"}
Taken = dict[tuple[str, str], dict[Problem, float]]
"""By backend and operation: the best share of the limit on each problem."""


def page(path: Path, files: Sequence[str], check: bool) -> bool:
    """Draw it; or only look whether it is there, since figures are not compared. True if it is not."""
    if check:
        return not path.exists()
    write_atomically(path, drawn(taken(files)))
    return False


def taken(files: Sequence[str]) -> Taken:
    found: Taken = {}
    for row in (row for group in load(files).groups for row in group.rows):
        if row.backend in SHOWN and row.op in OPS and row.problem.dtype == DTYPE and row.of_limit is not None:
            best = found.setdefault((row.backend, row.op), {})
            best[row.problem] = max(best.get(row.problem, 0.0), row.of_limit)
    return found


def drawn(found: Taken) -> bytes:
    """As SVG; the same results give the same file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelzoo.report import figure

    most = {op: max((len(own) for (_, other), own in found.items() if other == op), default=0) for op in OPS}
    with rc_context({**figure.STYLE, "svg.fonttype": "none", "font.family": "sans-serif"}):
        made = Figure(figsize=(9, 5.4), layout="constrained")
        for axes, (backend, title) in zip(
            made.subplots(2, 4, sharex=True, sharey=True).flat, SHOWN.items(), strict=True
        ):
            for place, op in enumerate(OPS):
                own = found.get((backend, op), {})
                score = geometric_mean(own.values()) or 0.0
                label = "-" if not own else f"{score:.2f}" + "*" * (len(own) < most[op])
                axes.barh(place, score, color=figure.COLOURS[backend], height=0.72)
                axes.text(score + 0.02, place, label, va="center", fontsize=7)
            axes.set(title=title, xlim=(0, 1.15), xticks=(0, 0.5, 1))
            axes.set_yticks(range(len(OPS)), list(OPS), fontsize=7)
            axes.grid(axis="x", alpha=0.3)
            axes.axvline(1, color="black", linewidth=0.8)
        made.axes[0].invert_yaxis()
        made.supxlabel("limit / time in bfloat16: 1 is as fast as the memory allows; * took fewer problems", fontsize=8)
        text = io.BytesIO()
        made.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    return text.getvalue()
