"""The result in one sentence: how near the limit the best come, or how their times compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kernelzoo.report import score
from kernelzoo.report.notes import DAGGER, TILDE
from kernelzoo.report.results import Group, Problem, Row, Selection, geometric_mean


def headline(group: Group, selection: Selection) -> str:
    """Geometric means over a selection's problems: shares of the limit if known, else ratios to the baseline."""
    told = [
        part
        for label, rows in score.sides(selection)
        if label != score.ALL_OTHERS and (part := _means(f"the {label}s", list(rows.values()), selection))
    ]
    base = [row for row in selection.rows if row.name == selection.baseline]
    if any(row.of_limit for row in base):
        told.append(_means(selection.baseline, base, selection))
    dtypes = sorted({problem.dtype for problem in selection.problems})
    count = len(selection.problems)
    problems = f"{count} problem{'s' * (count != 1)}"
    subject = f"{selection.rows[0].op}, {' and '.join(dtypes)}, on {group.label}, {problems}"
    return f"{subject}: {'; '.join(told) or 'nothing to compare'}. {fastest(selection, selection.names)}".strip()


def _means(label: str, rows: Sequence[Row], selection: Selection) -> str:
    marked = sum(TILDE in row.marks for row in rows)
    of = f" over {len(rows)} of them" if len(rows) < len(selection.problems) else ""
    but = f", {marked} {TILDE} disturbed" if marked else ""
    share = geometric_mean(row.of_limit for row in rows)
    if share is not None:
        return f"{label} {'reaches' if label == selection.baseline else 'reach'} {share:.0%} of the limit{of}{but}"
    ratio = geometric_mean(selection.ratio(row) for row in rows)
    if ratio is None or label == f"the {score.OTHERS}s":  # the peers include the baseline
        return ""
    return f"{label} take {ratio:.2f} times as long as {selection.baseline}{of}{but}"


def fastest(selection: Selection, names: Sequence[str]) -> str:
    """How often each backend is the fastest, as text. Implementations that break the contract are left out."""
    wins, unsure, waived = Counter[str](), 0, 0
    for problem in selection.problems:
        rows = _rows(selection, problem, names)
        waived += any(row.breaks for row in rows)
        right = [row for row in rows if not row.breaks]
        if right:
            first = min(right, key=lambda row: row.seconds)
            wins[first.backend] += 1
            unsure += TILDE in first.marks
    if not wins:
        return ""
    counts = ", ".join(f"{name} on {count}" for name, count in wins.most_common())
    but = f", {unsure} {TILDE} of them disturbed" if unsure else ""
    left = f"; {DAGGER} never counts" if waived else ""
    return f"The fastest: {counts}{but}{left}."


def _rows(selection: Selection, problem: Problem, names: Sequence[str]) -> list[Row]:
    found = (selection.cells.get((problem, name)) for name in names)
    return [row for row in found if row is not None]
