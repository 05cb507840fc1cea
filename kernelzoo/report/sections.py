"""What a report says: its sections as Markdown, the whole report of them, and generated blocks in other documents.

A block's name is what a document asks for between ``<!-- results:NAME -->`` and ``<!-- /results -->``: ``environment``,
``summary``, ``score``, ``shortfall``, ``behind``, ``variants``, ``submit``, ``host-ratios``, or ``table-OP-DTYPE`` such
as ``table-softmax-float32``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelzoo.report import score
from kernelzoo.report.results import DAGGER, OUTCOMES, Group, Problem, Results, ResultsError, Row, Selection
from kernelzoo.report.table import Cell, Table, escape, significant

BLANK = Cell("-")

TIMES_NOTE = "Median time of a launch in µs, and GB/s in brackets; the fastest of each row in bold."


def summary_note(baseline: str) -> str:
    return (
        f"`time / {baseline}` is the geometric mean, over the problems that both take, of the time over that of "
        f"{baseline.replace('/', ' ')}: below 1 is faster. `of limit` is the geometric mean of the share reached of "
        "what the device allows: the time of the smallest launch, plus the bytes that must move at the measured "
        "ceiling. Implementations that cover different problems (last column) are not compared by their means alone."
    )


def ratios_note(baseline: str) -> str:
    return (
        f"Time over that of {baseline} on the same problem: below 1 is faster; "
        f"the fastest in bold where it beats {baseline.partition('/')[0]}."
    )


def report(results: Results, title: str, figures: Mapping[tuple[str, str, str], str]) -> str:
    """The whole report. ``figures``: image file by label of the group, operation and dtype."""
    parts = [f"# {escape(title)}", environment(results)]
    for group in results.groups:
        if group.clock == "submit":
            parts += [f"## {escape(group.label)}", *_submits(group)]
            continue
        parts += [f"## {escape(group.label)}", *_summaries(group), summary_note(results.baseline)]
        for kind in SCORES:
            parts += _scores(group, kind)
        if group.clock == "wall":
            parts += _host_ratios(group)
        for op in group.operations():
            for dtype in group.dtypes(op):
                parts.append(f"### {op}, {dtype}")
                figure = figures.get((group.label, op, dtype))
                if figure is not None:
                    parts.append(f"![{op}, {dtype}: GB/s by implementation]({figure})")
                parts += _times(group.select(op, dtype))
    if any(row.breaks for group in results.groups for row in group.rows):
        parts += ["## Timed, though it breaks the contract", breaking_table(results).markdown(), BREAKING_NOTE]
    if results.failed:
        parts += ["## Without a result", failure_table(results).markdown()]
    return "\n\n".join(parts) + "\n"


def blocks(results: Results) -> dict[str, str]:
    """Every block that these results can fill, by name."""
    found = {"environment": environment(results)}
    summary: list[str] = []
    host: list[str] = []
    submit: list[str] = []
    scores: dict[str, list[str]] = {}
    tables: dict[str, list[str]] = {}
    for group in results.groups:
        if group.clock == "submit":
            submit += [_caption(group), *_submits(group)]
            continue
        summary += [_caption(group), *_summaries(group)]
        for kind in SCORES:
            if parts := _scores(group, kind):
                scores.setdefault(kind, []).extend([_caption(group), *parts])
        if group.clock == "wall" and (ratios := _host_ratios(group)):
            host += [_caption(group), *ratios]
        for op in group.operations():
            for dtype in group.dtypes(op):
                tables.setdefault(f"table-{op}-{dtype}", []).extend([_caption(group), *_times(group.select(op, dtype))])
    found["summary"] = "\n\n".join([*summary, summary_note(results.baseline)])
    found |= {kind: "\n\n".join(parts) for kind, parts in scores.items()}
    if submit:
        found["submit"] = "\n\n".join(submit)
    if host:
        found["host-ratios"] = "\n\n".join(host)
    return found | {name: "\n\n".join(parts) for name, parts in sorted(tables.items())}


def environment(results: Results) -> str:
    """A line for each run: where, with what and when it was measured."""
    return "\n".join(line for group in results.groups for line in _environment(group))


def terminal(results: Results) -> str:
    """The ratios to the baseline in plain text: for each operation a summary, and on the host every problem."""
    parts = []
    for group in results.groups:
        for op in group.operations():
            selection = group.select(op)
            parts.append(f"{op} on {group.label}; time over {results.baseline}, below 1 is faster")
            parts.append(summary_table(selection).text())
            if group.clock == "wall" and (table := ratio_table(selection)) is not None:
                parts.append(table.text())
        if any(row.breaks for row in group.rows):
            parts.append(f"{DAGGER} breaks the contract on special values; timed by leave")
    return "\n\n".join(parts)


def summary_table(selection: Selection) -> Table:
    """A line for each implementation, the smallest ratio to the baseline first."""
    ratios = {name: selection.mean_ratio(name) for name in selection.names}
    names = sorted(ratios, key=lambda name: ratios[name] or math.inf)
    with_limit = any(row.of_limit is not None for row in selection.rows)
    with_submit = any(row.submit_us is not None for row in selection.rows)
    headers = ["implementation", f"time / {selection.baseline}"]
    headers += ["of limit"] * with_limit + ["host submit, us"] * with_submit + ["problems"]

    def line(name: str) -> list[Cell]:
        ratio, share, submit = ratios[name], selection.mean_of_limit(name), selection.median_submit_us(name)
        rows = selection.of(name)
        cells = [Cell(rows[0].id + _mark(rows), id=rows[0].id), BLANK if ratio is None else Cell(f"{ratio:.2f}")]
        if with_limit:
            cells.append(BLANK if share is None else Cell(f"{share:.0%}"))
        if with_submit:
            cells.append(BLANK if submit is None else Cell(significant(submit)))
        return [*cells, Cell(f"{len(rows)} of {len(selection.problems)}")]

    return Table(headers, [line(name) for name in names])


def ratio_table(selection: Selection) -> Table | None:
    """The ratio to the baseline of every implementation on the readable problems; None if nothing can be compared."""
    names = [name for name in selection.names if name != selection.baseline and selection.mean_ratio(name) is not None]
    lines = []
    for problem in selection.readable():
        row_of = {name: selection.cells.get((problem, name)) for name in names}
        ratios = {name: None if row is None else selection.ratio(row) for name, row in row_of.items()}
        known = [ratio for ratio in ratios.values() if ratio is not None]
        if known:
            best = min(known) if min(known) < 1 else None
            cells = [BLANK if ratio is None else Cell(f"{ratio:.2f}", ratio == best) for ratio in ratios.values()]
            lines.append([Cell(f"{problem.dtype} {problem}"), *cells])
    return Table(["problem", *names], lines) if lines else None


def time_table(selection: Selection, problems: Sequence[Problem]) -> Table:
    """Times and GB/s: a line for each shape, a column for each implementation."""

    def line(problem: Problem) -> list[Cell]:
        rows = [selection.cells.get((problem, name)) for name in selection.names]
        best = min((row.seconds for row in rows if row is not None and not row.breaks), default=0.0)
        return [Cell(str(problem)), *(BLANK if row is None else Cell(_time(row), row.seconds == best) for row in rows)]

    return Table(["shape", *selection.names], [line(problem) for problem in problems])


BREAKING_NOTE = (
    "Right on ordinary values and wrong on special ones (NaN, infinities, a dtype's largest). Timed since whoever "
    f"measured asked for it by name; {DAGGER} marks it everywhere. The reason is that of the first problem."
)


def breaking_table(results: Results) -> Table:
    """What was timed by leave: a line for each implementation."""
    found: dict[str, list[Row]] = {}
    for group in results.groups:
        for row in group.rows:
            if row.breaks:
                found.setdefault(row.id, []).append(row)
    lines = [[Cell(id), Cell(str(len(rows))), Cell(rows[0].breaks)] for id, rows in sorted(found.items())]
    return Table(["implementation", "problems", "reason"], lines)


def failure_table(results: Results) -> Table:
    """What has no time, and why: a line for each implementation, outcome and reason, what is worst first."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for failure in sorted(results.failed, key=lambda f: (-OUTCOMES.index(f.outcome), f.id, f.problem)):
        key = failure.id, failure.outcome, failure.reason, failure.run.file
        found.setdefault(key, []).append(f"{failure.problem.dtype} {failure.problem}")
    lines = [
        [Cell(id), Cell(outcome), Cell("; ".join(problems)), Cell(reason), Cell(file)]
        for (id, outcome, reason, file), problems in found.items()
    ]
    return Table(["implementation", "outcome", "problems", "reason", "file"], lines)


def submit_table(selection: Selection) -> Table:
    """The host's time to submit a call: a line for each way of calling, the fastest first."""
    rows = sorted(selection.rows, key=lambda row: row.seconds)
    lines = [
        [
            Cell(row.id + _mark([row]), id=row.id),
            Cell(significant(row.microseconds)),
            _ratio_cell(selection, row),
        ]
        for row in rows
    ]
    return Table(["way of calling", "host's time, µs", f"time / {selection.baseline}"], lines)


MARKER = re.compile(r"^<!-- (?:results:(?P<name>\S+)|(?P<end>/results)) -->[ \t]*(?=\r?$)", re.MULTILINE)


def insert(document: str, text: Mapping[str, str], where: str) -> tuple[str, list[str]]:
    """The document with each block's text between its markers, and the names of the blocks that this changes.

    A marker stands alone on its line. Raises ResultsError for markers that don't pair up, for a block that ``text``
    doesn't hold, and for a document that has no markers.
    """
    newline = "\r\n" if "\r\n" in document else "\n"
    parts: list[str] = []
    changed: list[str] = []
    copied, opened = 0, None
    for marker in MARKER.finditer(document):
        line = document.count("\n", 0, marker.start()) + 1
        if marker["end"]:
            if opened is None:
                raise ResultsError(f"{where}, line {line}: <!-- /results --> closes no block")
            fresh = f"\n{text[opened['name']]}\n".replace("\n", newline)
            if document[opened.end() : marker.start()] != fresh:
                changed.append(opened["name"])
            parts += [document[copied : opened.end()], fresh]
            copied, opened = marker.start(), None
        elif opened is not None:
            raise ResultsError(f"{where}, line {line}: close block {opened['name']!r} first, with <!-- /results -->")
        elif marker["name"] not in text:
            known = ", ".join(text)
            raise ResultsError(f"{where}, line {line}: the results hold no block {marker['name']!r}; known: {known}")
        else:
            opened = marker
    if opened is not None:
        raise ResultsError(f"{where}: close block {opened['name']!r} with <!-- /results --> on a line of its own")
    if not parts:
        raise ResultsError(
            f"{where} has no place for results; add <!-- results:summary --> and <!-- /results -->, on own lines"
        )
    return "".join([*parts, document[copied:]]), changed


def _caption(group: Group) -> str:
    return f"**{escape(group.label)}**"


def _submits(group: Group) -> Iterator[str]:
    """The host's time to submit a call, each way of calling beside the baseline's own."""
    for op in group.operations():
        yield submit_table(group.select(op)).markdown()


def _ratio_cell(selection: Selection, row: Row) -> Cell:
    ratio = selection.ratio(row)
    return BLANK if ratio is None else Cell(f"{ratio:.2f}")


def _summaries(group: Group) -> Iterator[str]:
    for op in group.operations():
        yield summary_table(group.select(op)).markdown()


@dataclass(frozen=True)
class Scores:
    """One way to look at how near the limit a group comes."""

    caption: str
    table: Callable[[Group, str], Table | None]
    note: str


SCORES = {
    "score": Scores(
        "share of the limit, over all problems",
        score.score_table,
        "`score` is the geometric mean of limit / time, 1.00 being all that the device allows; even and odd are the "
        "lengths of the reduced axis. The best at each problem stands last, the zoo's own and that of all others; "
        "then, if it took its turn, what a kernel reaches that only copies the data.",
    ),
    "shortfall": Scores(
        "what falls short of the limit",
        score.shortfall_table,
        f"Problems on which even the best of the zoo reaches less than {score.SHORT:.0%} of the limit.",
    ),
    "behind": Scores(
        "what another project does faster",
        score.behind_table,
        "Problems on which another project's kernel is faster than all of the zoo's.",
    ),
    "variants": Scores(
        "each variant beside the fastest of its backend",
        score.variant_table,
        "The time over that of the fastest variant of the same backend: the best and the median over the problems that "
        f"it takes, and on how many it is within {score.NEAR - 1:.0%}.",
    ),
}


def _scores(group: Group, kind: str) -> list[str]:
    """One table per operation, "none" where there is nothing to list; nothing at all where no limit was measured."""
    made = SCORES[kind]
    parts = []
    for op in group.operations():
        if any(row.of_limit is not None for row in group.select(op).rows):
            found = made.table(group, op)
            parts.append(f"{op}: none" if found is None else f"{op}:\n\n{found.markdown()}")
    return [*parts, made.note + _of_the_mark(group.rows)] if parts else []


def _mark(rows: Iterable[Row]) -> str:
    return f" {DAGGER}" if any(row.breaks for row in rows) else ""


def _of_the_mark(rows: Iterable[Row]) -> str:
    """What is said below a table in which it may stand."""
    marked = f" {DAGGER} breaks the contract on special values, was timed by leave, and is never in bold."
    return marked if any(row.breaks for row in rows) else ""


def _host_ratios(group: Group) -> list[str]:
    tables = [(op, ratio_table(group.select(op))) for op in group.operations()]
    parts = [p for op, table in tables if table is not None for p in (f"{op}:", table.markdown())]
    return [*parts, ratios_note(group.baseline)] if parts else []


def _times(selection: Selection) -> list[str]:
    readable = selection.readable()
    parts = [time_table(selection, readable).markdown(), TIMES_NOTE + _of_the_mark(selection.rows)]
    if len(readable) < len(selection.problems):
        summary = f"<details><summary>All {len(selection.problems)} shapes</summary>"
        parts += [summary, time_table(selection, selection.problems).markdown(), "</details>"]
    return parts


def _environment(group: Group) -> Iterator[str]:
    for run, rows in group.runs():
        facts = [f"{len(rows)} results ({_joined(row.shape_set for row in rows)})", f"{samples(rows)} samples each"]
        facts += [f"{name} {value}" for name, value in [*limits(rows), *versions(rows)]]
        measured = f"measured {run.date}" if run.date else "date unknown"
        facts.append(measured + (f" at commit {run.commit}" if run.commit else ""))
        clock = f"{group.clock} clock ({escape(clocks(rows))})"
        yield f"- **{escape(group.device)}**, {clock}: {escape('; '.join(facts))} ({escape(run.file)})"
    if group.repeated:
        yield (
            f"- {escape(group.label)}: results of older runs left out: {group.repeated}, as a newer run measured the "
            "same; a ratio may therefore span two runs"
        )


def samples(rows: Sequence[Row]) -> str:
    fewest, most = min(row.samples for row in rows), max(row.samples for row in rows)
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def limits(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What the device was found to be able to do, by name."""
    for op in sorted({row.op for row in rows}):
        of_op = [row.ceiling_gb_per_s for row in rows if row.op == op]
        if ceilings := {significant(ceiling) for ceiling in of_op if ceiling is not None}:
            yield f"ceiling for {op}", f"{_joined(ceilings)} GB/s"
    if floors := {significant(row.floor_us) for row in rows if row.floor_us is not None}:
        yield "smallest launch", f"{_joined(floors)} µs"


def versions(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """The versions of what took part, by name; several where the rows differ."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row.versions:
            found.setdefault(name, set()).add(version)
    return [(name, _joined(values)) for name, values in found.items()]


def clocks(rows: Iterable[Row]) -> str:
    """The commonest detail of the clock; any other with the implementations that it timed."""
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row.clock_detail, []).append(row.id)
    common, *others = sorted(ids, key=lambda detail: (-len(ids[detail]), detail))
    return "; ".join([common, *(f"{detail} for {_joined(ids[detail])}" for detail in others)])


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _time(row: Row) -> str:
    return f"{significant(row.microseconds)} ({significant(row.gb_per_s)})" + _mark([row])
