"""The tables of a report: of one operation, or of all results."""

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from kernelzoo.report import notes
from kernelzoo.report.notes import DAGGER, TILDE
from kernelzoo.report.results import OUTCOMES, Failure, Problem, Results, Row, Selection, geometric_mean
from kernelzoo.report.table import BLANK, Cell, Table, format_number, format_three_digits, to_cell

LONG = 1000
"""The maximum number of characters of a reason."""

FEW = 12
"""The maximum number of problems listed for a reason."""

VALUES = re.compile(
    r", in rows of [^:]*|torch\.\w+|[-+]?\b(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)\b(?: to [-+]?\d\S*)?|[(),]"
)
"""A pattern of the parts in which reasons of one kind differ: numbers, places, dtypes and special values."""

UNRANKED = "Implementations with fewer problems are unranked; `best ranked` is the best mean on the same problems."


def rank_by_mean(
    rows_by_name: Mapping[str, Sequence[Row]],
    mean: Callable[[Sequence[Row]], float | None],
    best: Callable[[Iterable[float]], float] = min,
) -> dict[str, float | None]:
    """Rank the names with rows on all problems by mean. Unranked names follow, by number of problems, then by name.

    The value of a ranked name is None. The value of an unranked name is the best mean that any ranked name has on
    the same problems. Names with wrong special values are not compared. ``best``: min or max of means.
    """
    every = {row.problem for rows in rows_by_name.values() for row in rows}
    means = {name: mean(rows) for name, rows in rows_by_name.items() if len(rows) == len(every)}
    last = math.inf if best is min else 0.0
    order: dict[str, float | None] = dict.fromkeys(
        sorted(means, key=lambda name: means[name] or last, reverse=best is max)
    )
    right = [rows_by_name[name] for name in order if not any(row.breaks for row in rows_by_name[name])]
    for name in sorted(rows_by_name.keys() - means.keys(), key=lambda name: (-len(rows_by_name[name]), name)):
        own = {row.problem for row in rows_by_name[name]}
        there = [mean([row for row in rows if row.problem in own]) for rows in right]
        order[name] = best(means_there) if (means_there := [value for value in there if value is not None]) else None
    return order


def summary_table(selection: Selection) -> Table:
    """Return a table with a line per implementation, in the order of :func:`rank_by_mean` by ratio to the baseline."""
    names = rank_by_ratio(selection)
    with_limit = any(row.of_limit is not None for row in selection.rows)
    with_submit = any(row.submit_us is not None for row in selection.rows)
    headers = ["implementation", f"time / {selection.baseline}"]
    with_energy = any(row.energy is not None for row in selection.rows)
    headers += ["of limit"] * with_limit + [f"energy / {selection.baseline}", "J/GB"] * with_energy
    with_bits = [
        name for name in ("same_bits", "batch_invariant") if any(getattr(x, name) is not None for x in selection.rows)
    ]
    headers += ["host submit, µs"] * with_submit + [notes.BITS[name] for name in with_bits] + ["problems"]

    def line(name: str) -> list[Cell]:
        rows = selection.of(name)
        cells = [Cell(rows[0].id + marks_text(rows, no_tilde=True), id=rows[0].id), mean_ratio_cell(selection, rows)]
        if with_limit:
            cells.append(to_cell(selection.mean_share_of_limit(name), "{:.0%}".format))
        if with_energy:
            per_gb = geometric_mean(row.j_per_gb for row in rows)
            cells += [to_cell(selection.mean_energy_ratio(name)), to_cell(per_gb, format_three_digits)]
        if with_submit:
            cells.append(to_cell(selection.median_submit_us(name), format_number))
        cells += [_count_true(getattr(row, name) for row in rows) for name in with_bits]
        return [*cells, Cell(problem_counts_text(rows, selection, names[name]))]

    spare = _columns_to_drop(selection, "host submit, µs", "J/GB", *notes.BITS.values(), "of limit")
    return Table(headers, [line(name) for name in names], spare=spare)


def _count_true(facts: Iterable[bool | None]) -> Cell:
    """Return "yes" or "no" if that holds for all known facts, else text such as "36 of 39"."""
    known = [fact for fact in facts if fact is not None]
    if not known:
        return BLANK
    return Cell({len(known): "yes", 0: "no"}.get(sum(known), f"{sum(known)} of {len(known)}"))


def column_footers(rows: Sequence[Row], baseline: str) -> list[str]:
    """Return the footers of a summary that has columns of energy and of bits, for those that are known."""
    words = notes.energy_resolution(row.energy for row in rows)
    columns = f"`energy / {baseline}` is the energy of a launch divided by that of {baseline}."
    footers = [f"{columns} `J/GB` is the energy divided by the necessary bytes. {words}"] if words else []
    if any(row.same_bits is not None for row in rows):
        footers.append(
            "`run to run`: the same inputs gave the same bits again. `batch-invariant`: a row alone has the bits that "
            "it has among others. With numbers: on so many of the problems where that was checked."
        )
    return footers


def problem_counts_text(rows: Sequence[Row], selection: Selection, best_ranked_mean: float | None = None) -> str:
    """Return text such as "8 of 9; best ranked 1.20": numbers of problems and disturbed rows, ``best_ranked_mean``."""
    disturbed = sum(TILDE in row.marks for row in rows)
    told = f"{len(rows)} of {len(selection.problems)}" + (f", {disturbed} {TILDE}" if disturbed else "")
    return told if best_ranked_mean is None else f"{told}; best ranked {best_ranked_mean:.2f}"


def rank_by_ratio(selection: Selection) -> dict[str, float | None]:
    """Rank implementations as :func:`rank_by_mean` does: by ratio to the baseline, or by time if it lacks a problem."""
    taken = {name: selection.of(name) for name in selection.names}
    if len(selection.of(selection.baseline)) < len(selection.problems):
        return dict.fromkeys(rank_by_mean(taken, lambda rows: geometric_mean(row.seconds for row in rows)))
    return rank_by_mean(taken, lambda rows: geometric_mean(map(selection.ratio, rows)))


def mean_ratio_cell(selection: Selection, rows: Sequence[Row], text: Callable[[float], str] = "{:.2f}".format) -> Cell:
    """Return the mean ratio to the baseline, and over how many problems if the baseline lacks others."""
    ratios = [ratio for row in rows if (ratio := selection.ratio(row)) is not None]
    over = f" over {len(ratios)}" * (len(ratios) < len(rows))
    return to_cell(geometric_mean(ratios), lambda mean: text(mean) + over)


def _columns_to_drop(selection: Selection, *always: str) -> list[str]:
    """Return the columns that a narrow terminal drops first: ``always``, and ``problems`` if no problem is missing."""
    partial = len(selection.rows) < len(selection.names) * len(selection.problems)
    return [*always, *["problems"] * (not partial)]


def ratio_table(selection: Selection) -> Table | None:
    """Return ratios to the baseline on :meth:`Selection.short_table_problems` as a table; None without ratios."""
    names = [name for name in selection.names if name != selection.baseline and selection.mean_ratio(name) is not None]
    lines = []
    for problem in selection.short_table_problems():
        rows = [selection.rows_by_cell.get((problem, name)) for name in names]
        ratios = [None if row is None else selection.ratio(row) for row in rows]
        if any(ratio is not None for ratio in ratios):
            right = [ratio for row, ratio in zip(rows, ratios, strict=True) if ratio and row and not row.breaks]
            best = min([1.0, *right])
            cells = [
                BLANK
                if row is None or ratio is None
                else Cell(" ".join([f"{ratio:.2f}", *row.marks]), ratio == best < 1 and row.can_be_best)
                for row, ratio in zip(rows, ratios, strict=True)
            ]
            lines.append([Cell(problem.title), *cells])
    return Table(["problem", *names], lines, matrix=True) if lines else None


def time_table(selection: Selection, problems: Sequence[Problem]) -> Table:
    """Return a table of times and GB/s, with a line for each shape and a column for each implementation."""

    def line(problem: Problem) -> list[Cell]:
        rows = [selection.rows_by_cell.get((problem, name)) for name in selection.names]
        best = min((row.seconds for row in rows if row is not None and not row.breaks), default=0.0)
        cells = (BLANK if row is None else Cell(_timing(row), row.seconds == best and row.can_be_best) for row in rows)
        return [Cell(str(problem)), *cells]

    return Table(["shape", *selection.names], [line(problem) for problem in problems])


def contract_breach_table(results: Results) -> Table:
    """Return a table with a line for each implementation that was timed although it breaks the contract."""
    found: dict[str, list[Row]] = {}
    for group in results.groups:
        for row in group.rows:
            if row.breaks:
                found.setdefault(row.id, []).append(row)
    lines = [[Cell(id), Cell(str(len(rows))), Cell(rows[0].breaks, kind="text")] for id, rows in sorted(found.items())]
    return Table(["implementation", "problems", "reason"], lines)


def failure_table(results: Results) -> Table:
    """Tabulate why times are missing, the worst outcome first. Reasons share a line if only numbers or names differ."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for failure in sorted(results.failed, key=lambda f: (-OUTCOMES.index(f.outcome), f.id, f.problem)):
        words = failure.reason.replace(failure.id, "").replace(failure.id.replace(f"/{failure.op}/", "/"), "")
        found.setdefault((failure.outcome, " ".join(VALUES.sub("", words).split())), []).append(failure)
    lines = []
    for (outcome, _), alike in found.items():
        reasons = list(dict.fromkeys(failure.reason for failure in alike))
        text = reasons[0] if len(reasons[0]) <= LONG else f"{reasons[0][:LONG]} ..."
        more = f"and {len(reasons) - 1} more that differ in values or names" if len(reasons) > 1 else ""
        problems = [failure.problem.title for failure in alike]
        first = "; ".join(dict.fromkeys(problems[:FEW]))
        lines.append(
            [
                Cell(", ".join(dict.fromkeys(failure.id for failure in alike)), kind="wrap"),
                Cell(outcome, kind="neutral" if outcome == "refused" else "slower"),
                Cell(text, note=more, kind="text"),
                Cell(str(len(alike))),
                Cell(first + f"; and {len(problems) - FEW} more" * (len(problems) > FEW), kind="text"),
                Cell(", ".join(dict.fromkeys(failure.run.file for failure in alike)), kind="wrap"),
            ]
        )
    headers = ["implementation", "outcome", "reason", "results", "problems", "file"]
    return Table(headers, lines)


def call_time_table(selection: Selection) -> Table:
    """Return a table of whole calls from Python: a line per implementation, in the order of :func:`rank_by_mean`."""
    lines = []
    for name, best_ranked in rank_by_ratio(selection).items():
        rows, submit = selection.of(name), selection.median_submit_us(name)
        ratios = [(ratio, row) for row in rows if (ratio := selection.ratio(row)) is not None]
        worst, at = max(ratios, key=lambda one: one[0], default=(None, rows[0]))
        lines.append(
            [
                Cell(rows[0].id + marks_text(rows, no_tilde=True), id=rows[0].id),
                mean_ratio_cell(selection, rows),
                to_cell(worst),
                BLANK if worst is None else Cell(at.problem.title),
                Cell(format_number(statistics.median(row.microseconds for row in rows))),
                to_cell(submit, format_number),
                Cell(problem_counts_text(rows, selection, best_ranked)),
            ]
        )
    headers = ["implementation", f"call / {selection.baseline}", "worst", "at", "call, µs", "host submit, µs"]
    return Table([*headers, "problems"], lines, spare=_columns_to_drop(selection, "host submit, µs", "at", "call, µs"))


def submit_time_table(selection: Selection) -> Table:
    """Return a table of the host's times to submit a call: a line per way of calling, the fastest first."""
    rows = sorted(selection.rows, key=lambda row: row.seconds)
    lines = [
        [
            Cell(" ".join([row.id, *row.marks]), id=row.id),
            Cell(format_number(row.microseconds)),
            to_cell(selection.ratio(row)),
        ]
        for row in rows
    ]
    return Table(["way of calling", "host's time, µs", f"time / {selection.baseline}"], lines)


def marks_text(rows: Iterable[Row], *, no_tilde: bool = False) -> str:
    """Return the marks of rows. ``no_tilde``: omit the tilde, as :func:`problem_counts_text` counts disturbed rows."""
    found = {mark for row in rows for mark in row.marks} - ({TILDE} if no_tilde else set())
    return "".join(f" {mark}" for mark in (DAGGER, TILDE) if mark in found)


def _timing(row: Row) -> str:
    return " ".join([f"{format_number(row.microseconds)} ({format_number(row.gb_per_s)})", *row.marks])
