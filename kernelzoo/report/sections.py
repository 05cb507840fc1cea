"""The sections of a report as Markdown, whole reports, and generated blocks of documents.

A document names a block between ``<!-- results:NAME -->`` and ``<!-- /results -->``: ``environment``, ``summary``,
``score``, ``spread``, ``worst``, ``shortfall``, ``behind``, ``variants``, ``call``, ``submit``, ``host-ratios``,
``cards`` (of several), or ``table-OP-DTYPE`` such as ``table-softmax-float32``.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources

from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.measure.problems import random_sample_size
from kernelzoo.report import notes, score
from kernelzoo.report.result_tables import (
    UNRANKED,
    call_time_table,
    column_footers,
    contract_breach_table,
    failure_table,
    ratio_table,
    submit_time_table,
    summary_table,
    time_table,
)
from kernelzoo.report.results import ComparableRows, Results, Row, Selection
from kernelzoo.report.table import Table, escape, format_number
from kernelzoo.terminal import wrap_text

CALLS_NOTE = (
    "The time of a whole call: on a GPU the host's time, without waiting for the device. Ratios are to torch's own "
    "call, if it has one: below 1 is faster. `worst` is the largest ratio. `host submit` is of a bound launch. "
    + UNRANKED
)
TIMES_NOTE = "Median time of a launch in µs, and GB/s in brackets; the fastest of each row in bold."


def summary_note(baseline: str) -> str:
    return (
        f"`time / {baseline}` is the time divided by that of {baseline.replace('/', ' ')}: below 1 is faster. "
        "`of limit` is the limit of the device divided by the time: 100% is the best possible. The limit is the time "
        "of the smallest launch, plus that of the necessary bytes at the measured ceiling. Both are geometric means "
        f"over the problems that an implementation takes, `over` fewer if {baseline} takes fewer. {UNRANKED}"
    )


def ratios_note(baseline: str) -> str:
    return (
        f"Time divided by that of {baseline} on the same problem: below 1 is faster. The fastest is in bold if it is "
        "faster than the baseline."
    )


def report(results: Results, title: str, figures: Mapping[tuple[str, str, str], str]) -> str:
    """Return the complete report. ``figures``: image files by the group's label, operation and dtype."""
    parts = [f"# {escape(title)}", environment(results)]
    for group in results.groups:
        if group.clock in OF_CALLS:
            section = _call_time_section if group.clock == "call" else _submit_time_section
            parts += [f"## {escape(group.label)}", *section(group)]
            continue
        tables = [summary_table(group.select(op)).markdown() for op in group.operations()]
        footer = column_footers(group.rows, results.baseline)
        parts += [f"## {escape(group.label)}", *tables, summary_note(results.baseline), *footer]
        parts += mark_notes(group.rows, tables)
        parts += map(escape, notes.contract_slowdowns((row.id, row.form) for row in group.rows))
        for kind in SCORES:
            parts += _score_section(group, kind)
        if group.clock == "wall":
            parts += _host_time_ratio_section(group)
        for op in group.operations():
            for dtype in group.dtypes(op):
                parts.append(f"### {op}, {dtype}")
                figure = figures.get((group.label, op, dtype))
                if figure is not None:
                    parts.append(f"![{op}, {dtype}: GB/s by implementation]({figure})")
                parts += _time_section(group.select(op, dtype))
    if any(row.breaks for group in results.groups for row in group.rows):
        parts += ["## Timed although it breaks the contract", contract_breach_table(results).markdown(), BREAKING_NOTE]
    if differing := results.summary_contradictions():
        lines = [f"- {escape(line)}" for line in differing]
        parts += ["## Summaries that their samples contradict", DIFFERING_NOTE, "\n".join(lines)]
    if results.failed:
        parts += ["## Without a result", failure_table(results).markdown()]
    return "\n\n".join(parts) + "\n"


def document_blocks(results: Results) -> dict[str, str]:
    """Return the text of each block that can be inserted into documents, by the block's name; see this module."""
    found: dict[str, list[str]] = {"summary": []}
    for group in results.groups:
        for name, parts in _group_block_parts(group):
            found.setdefault(name, []).extend([f"**{escape(group.label)}**", *parts] if parts else [])
    rows = [row for group in results.groups for row in group.rows]
    found["summary"] += [summary_note(results.baseline), *column_footers(rows, results.baseline)]
    first = ["summary", *SCORES, "call", "submit", "host-ratios"]
    order = [name for name in first if found.get(name)] + sorted(found.keys() - {*first})
    return {"environment": environment(results)} | {name: "\n\n".join(found[name]) for name in order}


def _group_block_parts(group: ComparableRows) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each block with its parts for one group."""
    if group.clock in OF_CALLS:
        yield group.clock, _call_time_section(group) if group.clock == "call" else _submit_time_section(group)
        return
    tables = [summary_table(group.select(op)).markdown() for op in group.operations()]
    yield "summary", [*tables, *mark_notes(group.rows, tables)]
    for kind in SCORES:
        yield kind, _score_section(group, kind)
    if group.clock == "wall":
        yield "host-ratios", _host_time_ratio_section(group)
    for op in group.operations():
        for dtype in group.dtypes(op):
            yield f"table-{op}-{dtype}", _time_section(group.select(op, dtype))


def environment(results: Results) -> str:
    """Return a line for each run: device, clock, versions and date."""
    return "\n".join(line for group in results.groups for line in _environment(group))


def terminal_text(results: Results, width: int = 0) -> str:
    """Return ratios to the baseline as text: a summary of each operation. Host times also get a table by problem."""

    def prose(text: str) -> str:
        return "\n".join(wrap_text(text, width or len(text)))

    parts = []
    for group in results.groups:
        for op in group.operations():
            selection = group.select(op)
            ratios = f"ratios are time / {results.baseline}, below 1 is faster"
            parts.append(prose(f"{op} on {group.label}; {ratios}"))
            parts.append((call_time_table if group.clock == "call" else summary_table)(selection).text(width))
            if group.clock in ("wall", "call") and (table := ratio_table(selection)) is not None:
                parts.append(table.text(width))
                if any(cell.best for row in table.rows for cell in row):
                    parts.append(prose("* the fastest of its row, and faster than the baseline"))
            shape_sets = {row.shape_set.partition(",")[0] for row in selection.rows}
            if any(map(random_sample_size, shape_sets)) and group.clock not in OF_CALLS:
                for scores in (SCORES["spread"], SCORES["worst"]):
                    if (table := scores.table(group, op)) is not None:
                        parts += [prose(f"{op}, {scores.caption}: {scores.note}"), table.text(width)]
        footer = column_footers(group.rows, results.baseline)
        parts += [prose(text.replace("`", "")) for text in footer]
        parts += map(prose, run_notes(group))
        parts += map(prose, notes.contract_slowdowns((row.id, row.form) for row in group.rows))
        parts += map(prose, notes.explain_marks([row.marks for row in group.rows]))
    if differing := results.summary_contradictions():
        more = [f"and {len(differing) - MOST} more"] * (len(differing) > MOST)
        parts += map(prose, [DIFFERING_NOTE, *differing[:MOST], *more])
    if lost := Counter((one.outcome, one.id) for one in results.failed if one.outcome != "refused"):
        told = ", ".join(f"{id} {outcome} on {count}" for (outcome, id), count in sorted(lost.items(), reverse=True))
        parts.append(prose(f"Without a result: {told}. For the reasons: --markdown, or -o NAME.html"))
    return "\n\n".join(parts)


MOST = 5  # lines under this note in the terminal; a report has all
DIFFERING_NOTE = "A file's summary contradicts its samples; all numbers here are from the samples."

BREAKING_NOTE = (
    "Right on ordinary values, wrong on special ones (NaN, infinities, a dtype's largest). Timed because it was named "
    f"with --waive; {notes.DAGGER} marks it everywhere. The reason is that of the first problem."
)


def _call_time_section(group: ComparableRows) -> list[str]:
    """Return tables of complete calls: for each operation a table of means, and a table of ratios by problem."""
    parts = []
    for op in group.operations():
        selection = group.select(op)
        ratios = ratio_table(selection)
        parts += [f"{op}:", call_time_table(selection).markdown(), *([] if ratios is None else [ratios.markdown()])]
    costs = map(escape, notes.contract_slowdowns((row.id, row.form) for row in group.rows))
    return [*parts, CALLS_NOTE, *costs, *mark_notes(group.rows, parts)]


def _submit_time_section(group: ComparableRows) -> list[str]:
    """Return a table for each operation, of the host's time to submit a call."""
    tables = [submit_time_table(group.select(op)).markdown() for op in group.operations()]
    return [*tables, *mark_notes(group.rows, tables)]


@dataclass(frozen=True)
class ScoreTable:
    """A kind of score table: its caption, the function that makes the table, and its footer."""

    caption: str
    table: Callable[[ComparableRows, str], Table | None]
    note: str


SCORES = {
    "score": ScoreTable(
        "share of the limit, over all problems",
        score.score_table,
        "`score` is the geometric mean of limit / time: 1.00 is the best possible on the device. Even and odd are "
        "lengths of the reduced axis. The last lines take the fastest variant, the fastest peer and a plain copy on "
        f"each problem. {UNRANKED}",
    ),
    "spread": ScoreTable(
        "speed relative to the best peer and a copy, over all problems",
        score.relative_speed_table,
        "Its time divided by that of the kernel: above 1 is faster. `mean` is the geometric mean. One problem in ten "
        "is below the `tenth percentile`. Peers that break the contract are left out.",
    ),
    "worst": ScoreTable(
        f"the {score.WORST} worst cases against each",
        score.worst_table,
        f"The {score.WORST} problems on which the best kernelzoo variant is slowest, compared with the best peer and "
        "with a plain copy.",
    ),
    "shortfall": ScoreTable(
        "far from the limit",
        score.limit_shortfall_table,
        f"Problems on which the best kernelzoo variant reaches less than {score.SHORT:.0%} of the limit.",
    ),
    "behind": ScoreTable(
        "where a peer is faster",
        score.slower_than_peer_table,
        "Problems on which a peer is faster than the best kernelzoo variant.",
    ),
    "variants": ScoreTable(
        "each variant compared with the fastest of its backend",
        score.variant_table,
        "Time divided by that of the backend's fastest variant: the best and the median over the problems that the "
        f"variant takes, and the number of problems where it is within {score.NEAR - 1:.0%}.",
    ),
}


def _score_section(group: ComparableRows, kind: str) -> list[str]:
    """Return a table for each operation, or "none" for an empty table. If no limit was measured, return []."""
    made = SCORES[kind]
    parts = []
    for op in group.operations():
        if any(row.of_limit is not None for row in group.select(op).rows):
            found = made.table(group, op)
            parts.append(f"{op}: none" if found is None else f"{op}:\n\n{found.markdown()}")
    return [*parts, made.note, *mark_notes(group.rows, parts)] if parts else []


def mark_notes(rows: Iterable[Row], tables: Iterable[str]) -> list[str]:
    """Return a paragraph of explanation for each mark in the tables."""
    text = "".join(tables)
    return [escape(line) for line in notes.explain_marks([row.marks for row in rows]) if line[0] in text]


def _host_time_ratio_section(group: ComparableRows) -> list[str]:
    tables = [(op, ratio_table(group.select(op))) for op in group.operations()]
    parts = [p for op, table in tables if table is not None for p in (f"{op}:", table.markdown())]
    return [*parts, ratios_note(group.baseline), *mark_notes(group.rows, parts)] if parts else []


def _time_section(selection: Selection) -> list[str]:
    readable = selection.short_table_problems()
    table, whole = (time_table(selection, problems).markdown() for problems in (readable, selection.problems))
    parts = [table, TIMES_NOTE, *mark_notes(selection.rows, [whole])]
    if len(readable) < len(selection.problems):
        summary = f"<details><summary>All {len(selection.problems)} shapes</summary>"
        parts += [summary, whole, "</details>"]
    return parts


def _environment(group: ComparableRows) -> Iterator[str]:
    for run, rows in group.runs():
        facts = [f"{len(rows)} results ({_join_set(row.shape_set for row in rows)})"]
        facts.append(f"{sample_count_text(rows)} samples each")
        facts += [f"{name} {value}" for name, value in [*device_limits(rows), *versions(rows)]]
        measured = f"measured {run.date}" if run.date else "date unknown"
        facts.append(measured + (f" at commit {run.commit}" if run.commit else ""))
        clock = f"{group.clock} clock ({escape(clocks(rows))})"
        yield f"- **{escape(group.device)}**, {clock}: {escape('; '.join(facts))} ({escape(run.file)})"
        yield from (f"- {escape(f'{of} measured again {when} ({run.file})')}" for of, when in run.again)
    yield from (f"- {escape(note)}" for note in run_notes(group))


def run_notes(group: ComparableRows) -> Iterator[str]:
    """Yield a line on results of older runs that were left out, and one on ratios between unlike versions."""
    if group.repeated:
        yield (
            f"{group.label}: results of older runs left out: {group.repeated}; newer runs measured the same, "
            "so a ratio may compare two runs"
        )
    unlike: dict[str, set[str]] = {}
    for selection in map(group.select, group.operations()):
        for row in selection.rows:
            base = selection.rows_by_cell.get((row.problem, group.baseline), row)
            for name in ("driver", base.backend) if base.run != row.run else ():
                told = {dict(one.versions).get(name, "") for one in (row, base)}
                unlike.setdefault(name, set()).update(told if len(told - {""}) == 2 else ())
    if any(unlike.values()):
        words = "; ".join(f"{name} {' and '.join(sorted(found))}" for name, found in unlike.items() if found)
        yield f"{group.label}: ratios to {group.baseline} compare runs with unlike versions: {words}"


def sample_count_text(rows: Sequence[Row]) -> str:
    fewest, most = min(row.samples for row in rows), max(row.samples for row in rows)
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def device_limits(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield the measured limits of the device, by name."""
    for op in sorted({row.op for row in rows}):
        of_op = [row.ceiling_gb_per_s for row in rows if row.op == op]
        if ceilings := {format_number(ceiling) for ceiling in of_op if ceiling is not None}:
            yield f"ceiling for {op}", f"{_join_set(ceilings)} GB/s"
    if floors := {format_number(row.floor_us) for row in rows if row.floor_us is not None}:
        yield "smallest launch", f"{_join_set(floors)} µs"


def versions(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Return the versions of all packages, by name. If rows have different versions, list them all."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row.versions:
            found.setdefault(name, set()).add(version)
    return [(name, _join_set(values)) for name, values in found.items()]


def version_ages(group: ComparableRows) -> list[tuple[str, str]]:
    """Return the versions, with their age at the last measurement if their release date is in releases.json."""
    measured = max(run.date for run, _ in group.runs())[:10]
    text = resources.files("kernelzoo.report").joinpath("releases.json").read_text(encoding="utf-8")
    released = json.loads(text) if measured else {}
    told = []
    for name, version in versions(group.rows):
        day = released.get(name, {}).get(version.partition("+")[0])
        age = f", {(date.fromisoformat(measured) - date.fromisoformat(day)).days} days old" if day else ""
        told.append((name, version + age))
    return told


def clocks(rows: Iterable[Row]) -> str:
    """Return the rows' most frequent ``clock_detail``, then each other detail with its implementations."""
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row.clock_detail, []).append(row.id)
    common, *others = sorted(ids, key=lambda detail: (-len(ids[detail]), detail))
    return "; ".join([common, *(f"{detail} for {_join_set(ids[detail])}" for detail in others)])


def _join_set(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))
