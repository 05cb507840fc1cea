"""The score of forms by their lines of code. A score is the geometric mean of limit / time."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kernelzoo.packages import LANGUAGES
from kernelzoo.report.lines import lines_to_read
from kernelzoo.report.results import Problem, Row, geometric_mean
from kernelzoo.report.table import BLANK, Cell, Table

LIMITS = {"≤ 60 lines": 60, "≤ 150 lines": 150, "all forms": sys.maxsize}
"""The most lines of a form, by the header of a column."""


class Form(NamedTuple):
    """A form: its language, the lines to read, and its best score on each problem that it took."""

    backend: str
    lines: int
    scores: Mapping[Problem, float]

    @property
    def score(self) -> float:
        return geometric_mean(self.scores.values()) or 0.0


def forms_of(rows: Iterable[Row], lines_of: Callable[[str], int] = lines_to_read) -> dict[str, list[Form]]:
    """Return the forms that ran, by operation. Those without lines are left out: of other packages, or older."""
    found = defaultdict[str, dict[Problem, float]](dict)
    for row in rows:
        if row.of_limit is not None:
            best = found[row.form or row.id]
            best[row.problem] = max(best.get(row.problem, 0.0), row.of_limit)
    made = defaultdict[str, list[Form]](list)
    for id, scores in found.items():
        backend, op, _ = id.split("/")
        if backend in LANGUAGES and (lines := lines_of(id)):
            made[op].append(Form(backend, lines, scores))
    return made


def fastest(forms: Iterable[Form], backend: str = "", most: int = sys.maxsize) -> dict[Problem, float]:
    """Return the best score on each problem, of a language's forms of at most so many lines."""
    fit = (form for form in forms if backend in ("", form.backend) and form.lines <= most)
    scores = (pair for form in fit for pair in form.scores.items())
    return dict(sorted(scores, key=lambda pair: pair[1]))  # of a problem's scores the last, the best, is kept


def by_language(op: str, forms: Sequence[Form]) -> Table:
    """Return a row for each language: the score of its forms that are short enough, together.

    On each problem the fastest of them counts. The best in a column is bold, among those that took all problems.
    """
    names = {backend: name for backend, name in LANGUAGES.items() if any(form.backend == backend for form in forms)}
    cells: dict[str, list[Cell]] = {backend: [Cell(name)] for backend, name in names.items()}
    every = len(fastest(forms))
    for most in LIMITS.values():
        best = {backend: fastest(forms, backend, most) for backend in names}
        means = {backend: f"{geometric_mean(own.values()) or 0:.2f}" for backend, own in best.items()}
        top = max((means[backend] for backend, own in best.items() if len(own) == every), default="")
        for backend, own in best.items():
            part = f" ({len(own)} of {every})" if len(own) < every else ""
            cells[backend].append(Cell(means[backend] + part, means[backend] + part == top) if own else BLANK)
    return Table([op, *LIMITS], list(cells.values()))
