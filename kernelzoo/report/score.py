"""Scores over a map of problems: how near implementations are to the limit, and where peers are faster.

The *score* is the geometric mean of limit / time over the problems that an implementation takes. 1.00 is the best
possible on the device.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kernelzoo.report.looks import OWN
from kernelzoo.report.notes import DAGGER
from kernelzoo.report.result_tables import marks_text, problem_counts_text, rank_by_mean
from kernelzoo.report.results import ComparableRows, Problem, Row, Selection, geometric_mean
from kernelzoo.report.table import BLANK, Cell, Table, format_number, to_cell

SHORT = 0.8
"""A share of the limit below this counts as a shortfall."""

NEAR = 1.1
"""A variant within this factor of its backend's fastest is near it."""

ZOO, OTHERS, COPY = "best kernelzoo variant", "best peer", "a plain copy"
ALL_OTHERS = f"{OTHERS}, with {DAGGER}"

MOST_LINES = 40  # of a list of problems, the worst first
WORST = 10  # the number of worst cases against the peer, and against the copy


def score_table(group: ComparableRows, op: str) -> Table | None:
    """Tabulate the share of the limit that kernels, other libraries and a plain copy reach. None without limits."""
    selection = group.select(op)
    if not any(row.of_limit is not None for row in selection.rows):
        return None
    taken = {name: [row for row in selection.of(name) if row.of_limit is not None] for name in selection.names}
    lines = [
        _score_line(name + marks_text(selection.of(name), no_tilde=True), taken[name], selection, there)
        for name, there in rank_by_mean(taken, lambda rows: geometric_mean(row.of_limit for row in rows), max).items()
    ]
    for label, best in find_fastest_rows(selection):
        lines.append(_score_line(label, list(best.values()), selection))
    if copies := {row.problem: _plain_copy_as_row(row) for row in selection.rows if row.copy_us and row.of_limit}:
        lines.append(_score_line(COPY, list(copies.values()), selection))
    headers = ["implementation", "score", "even lengths", "odd lengths", "worst", "at", "problems"]
    return Table(headers, lines)


def limit_shortfall_table(group: ComparableRows, op: str) -> Table | None:
    """Tabulate problems on which the best kernelzoo variant reaches less than ``SHORT`` of the limit, worst first."""
    selection = group.select(op)
    zoo = dict(find_fastest_rows(selection)).get(ZOO, {})
    short = [row for row in zoo.values() if row.of_limit is not None and row.of_limit < SHORT]
    with_copy = any(row.copy_us is not None for row in short)
    backends = _kernelzoo_backends(selection)
    lines = []
    for row in sorted(short, key=lambda row: row.of_limit or 0)[:MOST_LINES]:
        autos = [selection.rows_by_cell.get((row.problem, f"{backend}/auto")) for backend in backends]
        shares = [to_cell(None if auto is None else auto.of_limit) for auto in autos]
        copied = BLANK if row.copy_us is None else to_cell(_plain_copy_as_row(row).of_limit)
        lines.append([Cell(row.problem.title), _best_cell(row), to_cell(row.of_limit), *shares, *[copied] * with_copy])
    headers = ["problem", "best", "limit / time", *(f"{backend}/auto" for backend in backends)]
    headers += [COPY] * with_copy
    return Table(headers, lines) if lines else None


def slower_than_peer_table(group: ComparableRows, op: str) -> Table | None:
    """Tabulate problems on which any peer is faster than the best kernelzoo variant, the largest ratio first."""
    from kernelzoo.report.compare import compare  # imports numpy, which a report without gaps does not need

    found = dict(find_fastest_rows(group.select(op)))
    zoo, others = found.get(ZOO, {}), found.get(ALL_OTHERS) or found.get(OTHERS, {})
    gaps = [compare(row, others[problem]) for problem, row in zoo.items() if problem in others]
    slower = sorted((gap for gap in gaps if gap.ratio > 1), key=lambda gap: -gap.ratio)
    lines = [
        [
            Cell(gap.row.problem.title),
            *_name_and_time(gap.row),
            *_name_and_time(gap.base),
            Cell(f"{gap.ratio:.2f}"),
            Cell(gap.verdict.value) if gap.verdict else BLANK,
        ]
        for gap in slower[:MOST_LINES]
    ]
    headers = ["problem", ZOO, "µs", OTHERS, "µs", "ratio", "verdict"]
    return Table(headers, lines) if lines else None


def relative_speed_table(group: ComparableRows, op: str) -> Table | None:
    """Tabulate speeds of the best variant and of each backend's ``auto``, relative to the best peer and to a copy."""
    selection = group.select(op)
    kernels = {ZOO: list(dict(find_fastest_rows(selection)).get(ZOO, {}).values())}
    kernels |= {f"{backend}/auto": selection.of(f"{backend}/auto") for backend in _kernelzoo_backends(selection)}
    lines = []
    for label, base in _reference_times(selection):
        for name, rows in kernels.items():
            speeds = _relative_speeds(rows, base)
            if speeds:
                alone = [speed for speed, _ in speeds]
                tenth = statistics.quantiles(alone, n=10, method="inclusive")[0] if len(alone) > 1 else alone[0]
                figures = map(to_cell, (geometric_mean(alone), tenth, alone[0]))
                at, count = Cell(speeds[0][1].problem.title), Cell(f"{len(alone)} of {len(selection.problems)}")
                lines.append([Cell(name), Cell(label), *figures, at, count])
    headers = ["kernel", "compared with", "mean", "tenth percentile", "worst", "at", "problems"]
    return Table(headers, lines, spare=["problems", "at"]) if lines else None


def worst_table(group: ComparableRows, op: str) -> Table | None:
    """Tabulate the ten worst problems of the best kernelzoo variant relative to the best peer, and to a plain copy."""
    selection = group.select(op)
    zoo = dict(find_fastest_rows(selection)).get(ZOO, {})
    lines = []
    for label, base in _reference_times(selection):
        speeds = _relative_speeds(zoo.values(), base)
        for speed, row in speeds[:WORST]:
            other = Cell(format_number(base[row.problem] * 1e6))
            lines.append([Cell(row.problem.title), *_name_and_time(row), Cell(label), other, Cell(f"{speed:.2f}")])
    headers = ["problem", ZOO, "µs", "compared with", "µs", "its time / kernelzoo's"]
    return Table(headers, lines) if lines else None


def _reference_times(selection: Selection) -> Iterator[tuple[str, dict[Problem, float]]]:
    """Yield labels with seconds by problem: of the best peer that keeps the contract, and of a copy."""
    others = dict(find_fastest_rows(selection)).get(OTHERS, {})
    yield OTHERS, {problem: row.seconds for problem, row in others.items()}
    yield COPY, {row.problem: row.copy_us / 1e6 for row in selection.rows if row.copy_us}


def _relative_speeds(rows: Iterable[Row], base: Mapping[Problem, float]) -> list[tuple[float, Row]]:
    """Return each row's speed relative to the seconds in ``base``, with the row, the slowest first."""
    speeds = [(base[row.problem] / row.seconds, row) for row in rows if row.problem in base]
    return sorted(speeds, key=lambda one: one[0])


def variant_table(group: ComparableRows, op: str) -> Table | None:
    """Tabulate the time of each variant divided by the time of its backend's fastest variant."""
    selection = group.select(op)
    own = _kernelzoo_backends(selection)
    fastest: dict[tuple[str, Problem], float] = {}
    for row in selection.rows:
        key = row.backend, row.problem
        fastest[key] = min(row.seconds, fastest.get(key, row.seconds))
    lines = []
    for name in selection.names:
        rows = selection.of(name)
        if rows[0].backend in own:
            ratios = sorted(row.seconds / fastest[row.backend, row.problem] for row in rows)
            near = sum(ratio <= NEAR for ratio in ratios)
            figures = (f"{ratios[0]:.2f}", f"{ratios[len(ratios) // 2]:.2f}", f"{near} of {len(rows)}")
            lines.append([Cell(rows[0].id + marks_text(rows)), *map(Cell, figures)])
    headers = ["variant", "best", "median", f"within {NEAR - 1:.0%}"]
    named = any(not line[0].text.split()[0].endswith("/auto") for line in lines)
    return Table(headers, lines) if named else None


def find_fastest_rows(selection: Selection) -> Iterator[tuple[str, dict[Problem, Row]]]:
    """Yield labels with the fastest row of each problem: of kernelzoo, and of peers that keep the contract. If a peer
    breaks the contract, yield the fastest row of all peers too."""
    own = _kernelzoo_backends(selection)
    others = [row for row in selection.rows if row.backend not in own]
    found = [
        (ZOO, [row for row in selection.rows if row.backend in own and not row.breaks]),
        (OTHERS, [row for row in others if not row.breaks]),
    ]
    if any(row.breaks for row in others):
        found.append((ALL_OTHERS, others))
    for label, rows in found:
        best: dict[Problem, Row] = {}
        for row in rows:
            best[row.problem] = min(best.get(row.problem, row), row, key=lambda one: one.seconds)
        if best:
            yield label, best


def _kernelzoo_backends(selection: Selection) -> list[str]:
    """Return the built-in backends that have rows, except the baseline's."""
    return sorted({row.backend for row in selection.rows} & set(OWN))


def _score_line(label: str, rows: Iterable[Row], selection: Selection, best_ranked: float | None = None) -> list[Cell]:
    limited = [row for row in rows if row.of_limit is not None]
    worst = min(limited, key=lambda row: row.of_limit or 0, default=None)
    odd = [row.of_limit for row in limited if row.problem.reduced_length % 2]
    even = [row.of_limit for row in limited if row.problem.reduced_length % 2 == 0]
    return [
        Cell(label),
        to_cell(geometric_mean(row.of_limit for row in limited)),
        to_cell(geometric_mean(even)),
        to_cell(geometric_mean(odd)),
        to_cell(None if worst is None else worst.of_limit),
        BLANK if worst is None else Cell(worst.problem.title),
        Cell(problem_counts_text(limited, selection, best_ranked)),
    ]


def _plain_copy_as_row(row: Row) -> Row:
    """Return the row with the time, and the share of the limit, of a plain copy of its data."""
    assert row.of_limit is not None and row.copy_us is not None
    share = row.of_limit * row.microseconds / row.copy_us
    return replace(row, seconds=row.copy_us / 1e6, of_limit=share)


def _name_and_time(row: Row) -> tuple[Cell, Cell]:
    return Cell(" ".join([row.name, *row.marks])), Cell(format_number(row.microseconds))


def _best_cell(row: Row) -> Cell:
    """Return a cell with the row's implementation, the form that it chose, and its marks."""
    return Cell(" ".join([row.name, *([f"({row.chosen_form})"] if row.chosen_form else []), *row.marks]), id=row.id)
