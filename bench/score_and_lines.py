"""The score of each form against the lines of code that a reader of it must read: a picture, and tables.

A score is the geometric mean of limit / time in bfloat16. ``python bench/records.py pages`` calls this beside all other
pages. The README has the picture, and the table of the best forms.
"""

from __future__ import annotations

import io
import math
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelzoo.files import write_atomically
from kernelzoo.packages import LANGUAGES
from kernelzoo.report.reading import load
from kernelzoo.report.results import Results
from kernelzoo.report.sections import versions
from kernelzoo.report.short_forms import LIMITS, Form, by_language, fastest, forms_of
from kernelzoo.report.table import BLANK, Cell, Table

OPS: tuple[str, ...] = runpy.run_path(str(Path(__file__).with_name("ten_bars.py")))["OPS"]
NAMES = {backend: name for backend, name in LANGUAGES.items() if backend not in ("cpu", "torch")}
INTRODUCTION = """\
# Score against lines of code

What does a short kernel reach? A score is limit / time in bfloat16, the geometric mean over the shapes below. The lines
are those that a reader of a form must read: its own files, and what they call on the GPU, without comments. Python of
other files that plans and launches is not counted.

![Score against lines](score-and-lines.svg)

Shapes of softmax and min: 11 of those [that people run](h200-people-softmax/report.md). Of the others:
[hidden sizes](h200-hidden/report.md), [vocabularies](h200-vocabulary/report.md), or both."""
BEST = "The best form that takes all shapes, with its lines. The last column: the fastest form for each shape."
LANGUAGES_TOGETHER = """\
The same of each language. On each shape the fastest of its forms counts that are short enough. In brackets: unranked,
since they took fewer shapes. A dash: no form is so short."""
PACKAGES = (
    "python",
    "torch",
    "triton",
    "cupy-cuda13x",
    "numba-cuda",
    "cuda-tile",
    "nvidia-cutlass-dsl",
    "helion",
)
Forms = Mapping[str, Sequence[Form]]
"""By operation."""


def page(path: Path, files: Sequence[str], check: bool) -> bool:
    """Draw the picture, or write the page of tables. ``check``: only look. True if it would change; a picture counts as
    unchanged, since figures are not compared."""
    made = drawn(forms_in(files)) if path.suffix == ".svg" else document(forms_in(files), caption(load(files))).encode()
    if not check:
        write_atomically(path, made)
    return not path.exists() or (path.suffix != ".svg" and path.read_bytes() != made)


def forms_in(files: Sequence[str]) -> Forms:
    """Return the forms that the files have scores of."""
    rows = (row for group in load(files).groups for row in group.rows)
    found = forms_of(row for row in rows if row.backend in NAMES and row.problem.dtype == "bfloat16")
    return {op: found[op] for op in OPS if op in found}


def caption(results: Results, packages: Sequence[str] = PACKAGES) -> str:
    """Return what was measured with what, and when: device, packages, driver and days."""
    known = dict(versions(row for group in results.groups for row in group.rows))
    said = ", ".join(f"{name} {known[name]}" for name in (*packages, "driver") if name in known)
    runs = [run for group in results.groups for run, _ in group.runs()]
    days = sorted(day[:10] for run in runs for day in (run.date, *(when for _, when in run.again)))
    return f"{results.groups[0].device}; {said}; {' to '.join(dict.fromkeys((days[0], days[-1])))}"


def best_forms(forms: Forms) -> Table:
    """Return a row for each operation: the best form that is short enough, and the best language."""
    rows = []
    for op, own in forms.items():
        name, *_, best = next(row for row in by_language(op, own).rows if row[-1].best)
        rows.append([Cell(op), *(_best_form(own, most) for most in LIMITS.values()), Cell(f"{name.text} {best.text}")])
    return Table(["operation", *[*LIMITS][:-1], "one form", "all forms"], rows)


def document(forms: Forms, measured: str) -> str:
    """Return the page of all tables. ``measured``: see :func:`caption`."""
    tables = (by_language(op, own).markdown() for op, own in forms.items())
    return (
        "\n\n".join(
            (INTRODUCTION, f"Measured: {measured}.", BEST, best_forms(forms).markdown(), LANGUAGES_TOGETHER, *tables)
        )
        + "\n"
    )


def _best_form(forms: Sequence[Form], most: int) -> Cell:
    """The fastest form that is short enough, of those that took all problems; of equal ones the shortest."""
    fit = [form for form in forms if form.lines <= most and len(form.scores) == len(fastest(forms))]
    best = max(fit, key=lambda form: (round(form.score, 2), -form.lines), default=None)
    return BLANK if best is None else Cell(f"{NAMES[best.backend]} {best.score:.2f} ({best.lines})")


def drawn(forms: Forms) -> bytes:
    """As SVG; the same results give the same file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelzoo.report import figure

    across, down = min(5, len(forms)), math.ceil(len(forms) / 5)
    style = {**figure.STYLE, "axes.grid": False, "axes.titlesize": 9, "legend.frameon": False}
    with rc_context({**style, "svg.fonttype": "none", "font.family": "sans-serif"}):
        made = Figure(figsize=(9, 1 + 2.1 * down), layout="constrained")
        for place, (op, own) in enumerate(forms.items(), 1):
            axes = made.add_subplot(down, across, place, title=op, xscale="log", xlim=(25, 1000), ylim=(0, 1.04))
            for form in sorted(own, key=lambda form: -len(form.scores)):
                took_all = len(form.scores) == len(fastest(own))
                look: dict[str, Any] = (
                    {"ms": 6.5, "mec": "white", "mew": 0.5} if took_all else {"ms": 4, "mfc": "white"}
                )
                axes.plot(form.lines, form.score, "o", color=figure.COLOURS[form.backend], **look)
            axes.vlines((60, 150), 0, 1.04, color="#dddddd", linewidth=0.8, zorder=0)
            axes.set_xticks((30, 60, 150, 400), ("30", "60", "150", "400"), fontsize=7)
            axes.set_xticks((), minor=True)
            axes.set_yticks((0, 0.5, 1), ("0", "0.5", "1") if place % across == 1 % across else (), fontsize=7)
        for backend, name in NAMES.items():
            axes.plot((), (), "o", color=figure.COLOURS[backend], ms=6.5, label=name)
        axes.plot((), (), "o", color="#555555", ms=4, mfc="white", label="hollow: took fewer problems")
        made.legend(
            *axes.get_legend_handles_labels(), loc="outside upper center", ncols=8, fontsize=8, handletextpad=0.2
        )
        made.supxlabel("lines of code that a reader of the form must read", fontsize=8)
        made.supylabel("limit / time in bfloat16", fontsize=8)
        text = io.BytesIO()
        made.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    return text.getvalue()
