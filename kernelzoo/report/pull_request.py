"""Results as short Markdown for a pull request: what changed, and a table for each operation."""

import math
from collections import Counter
from collections.abc import Iterator

from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import notes, result_tables
from kernelzoo.report.compare import changes, compare_to_baseline
from kernelzoo.report.results import Results, Row, Selection
from kernelzoo.report.table import BLANK, Cell, Table, escape, format_number, ratio_text

MOST = 25
"""The maximum number of lines of a table. If there are more results, each implementation has one line with counts."""


def markdown(results: Results, against: Results | None = None) -> str:
    """Return the text of the pull request. ``against``: older results with which ``results`` are compared."""
    parts = [] if against is None else list(_describe_changes(results, against))
    for group in results.groups:
        for op in group.operations():
            selection = group.select(op)
            told = _result_table(selection) if len(selection.rows) <= MOST else _verdict_table(selection)
            parts += [f"**{escape(op)}**, {escape(group.label)}", told.markdown()]
    lost = [failure for failure in results.failed if failure.outcome != "refused"]
    if lost:
        parts += ["**Without a result**", result_tables.failure_table(Results((), tuple(lost))).markdown()]
    marks = [row.marks for group in results.groups for row in group.rows]
    return "\n\n".join([*parts, *map(escape, notes.explain_marks(marks))])


def _result_table(selection: Selection) -> Table:
    """Return a table with a line for each result, by problem, the fastest first."""
    compared = compare_to_baseline(selection)
    headers = ["implementation", "problem", "µs", f"time / {selection.baseline}", "95 % interval", "verdict"]

    def line(row: Row) -> list[Cell]:
        name = [Cell(" ".join([row.id, *row.marks])), Cell(row.problem.title), Cell(format_number(row.microseconds))]
        found = compared.get((row.problem, row.name))
        if found is None:
            return [*name, Cell("1") if row.name == selection.baseline else BLANK, BLANK, BLANK]
        return [*name, *found.cells]

    return Table(headers, [line(row) for row in sorted(selection.rows, key=lambda row: (row.problem, row.seconds))])


def _verdict_table(selection: Selection) -> Table:
    """Return a table with a line for each implementation: the mean ratio, and how often each verdict occurs."""
    compared = compare_to_baseline(selection)
    verdicts = Verdict.FASTER, Verdict.SAME, Verdict.SLOWER, Verdict.UNCLEAR

    def line(name: str) -> list[Cell]:
        rows = selection.of(name)
        found = Counter(
            one.verdict or Verdict.UNCLEAR for row in rows if (one := compared.get((row.problem, row.name)))
        )
        counts = [Cell(str(found[verdict])) if found else BLANK for verdict in verdicts]
        problems = Cell(result_tables.problem_counts_text(rows, selection))
        return [
            Cell(rows[0].id + result_tables.marks_text(rows, no_tilde=True)),
            result_tables.mean_ratio_cell(selection, rows, ratio_text),
            *counts,
            problems,
        ]

    headers = ["implementation", f"mean time / {selection.baseline}", *(verdict.value for verdict in verdicts)]
    return Table([*headers, "problems"], [line(name) for name in result_tables.rank_by_ratio(selection)])


def _describe_changes(new: Results, old: Results) -> Iterator[str]:
    """Yield paragraphs about what is slower or faster than in the older results."""
    found = changes(new, old)
    if not any(change.comparisons for change in found):
        yield "Nothing can be compared with the older results: no row has the same problem, device, clock and cache."
    for change in found:
        compared = change.comparisons
        count = Counter(one.verdict or Verdict.UNCLEAR for one in compared)
        told = ", ".join(f"{count[verdict]} {verdict.value}" for verdict in Verdict)
        if compared:
            yield f"**Since the older results**, {escape(change.new.label)}: {told}, of {len(compared)}."
        moved = [one for one in compared if one.verdict in (Verdict.SLOWER, Verdict.FASTER)]
        moved.sort(key=lambda one: (one.ratio < 1, -abs(math.log(one.ratio))))  # slowdowns first, the largest of each
        if moved:
            yield change.table(moved[:MOST]).markdown()
        if len(moved) > MOST:
            yield f"And {len(moved) - MOST} more."
