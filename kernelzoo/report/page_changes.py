"""The part of the page about changes since an older run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import compare, sections
from kernelzoo.report.compare import Comparison, GroupChanges
from kernelzoo.report.results import ComparableRows, Results, Row, geometric_mean
from kernelzoo.report.table import WORDS, Cell, Table, ratio_text, to_cell

FEW = 25
"""The maximum number of lines in the table of the largest changes. A second, collapsed table has all changes."""


@dataclass(frozen=True)
class Difference:
    """What changed in one group of rows since an older run."""

    heading: str
    differing: Table | None
    summary: Table
    changed: Sequence[Table]
    all: Table | None
    only: Sequence[tuple[str, Sequence[tuple[str, str]]]]


def differences(new: Results, old: Results) -> tuple[Sequence[str], Sequence[Difference]]:
    """Return a line for each group that can't be compared, and the changes of the other groups."""
    found = compare.changes(new, old)
    unmatched = [
        f"{group.label}: only in the {name} results"
        for name, groups, others in (("newer", new.groups, old.groups), ("older", old.groups, new.groups))
        for group in groups
        if group.label not in {other.label for other in others}
    ]
    return unmatched, [_describe_change(change) for change in found]


def _describe_change(change: GroupChanges) -> Difference:
    comparisons = change.comparisons
    slower = [c for c in comparisons if c.verdict is Verdict.SLOWER]
    faster = [c for c in reversed(comparisons) if c.verdict is Verdict.FASTER]

    def largest_changes(word: str, pairs: Sequence[Comparison]) -> list[Table]:
        if not pairs:
            return []
        return [change.table(pairs[:FEW], f"{word}: {len(pairs)}" + (f", the first {FEW}" if len(pairs) > FEW else ""))]

    every = change.table(comparisons, f"Every comparison, the worst slowdown first ({len(comparisons)})")
    return Difference(
        heading=change.new.label,
        differing=_differing_facts(change),
        summary=_verdict_counts_table(change),
        changed=[*largest_changes("Slower", slower), *largest_changes("Faster", faster)],
        all=every if comparisons else None,
        only=[
            (f"Only in the {name} results: {len(rows)}", _problems_by_id(rows))
            for name, rows in (("newer", change.only_new), ("older", change.only_old))
            if rows
        ],
    )


def _problems_by_id(rows: Iterable[Row]) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.id, row.problem)):
        found.setdefault(row.id, []).append(row.problem.title)
    return [(id, "; ".join(problems)) for id, problems in found.items()]


def _differing_facts(change: GroupChanges) -> Table | None:
    """Return the facts, such as versions, that differ between the two runs; None if all agree."""

    def run_facts(group: ComparableRows) -> dict[str, str]:
        runs = [run for run, _ in group.runs()]
        found = {"file": ", ".join(run.file for run in runs), "measured": ", ".join(run.date_to_minute for run in runs)}
        found |= {"commit": ", ".join(run.commit or "unknown" for run in runs), "clock": sections.clocks(group.rows)}
        return found | dict(sections.device_limits(group.rows)) | dict(sections.versions(group.rows))

    old, new = run_facts(change.old), run_facts(change.new)
    lines = [
        [Cell(name), *(Cell(facts_of.get(name, "-"), kind=WORDS) for facts_of in (old, new))]
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return Table(["", "before", "now"], lines, caption="What differs between the two runs") if lines else None


def _verdict_counts_table(change: GroupChanges) -> Table:
    lines = []
    for op in sorted({c.row.op for c in change.comparisons}):
        of = [c for c in change.comparisons if c.row.op == op]
        counts = Counter(c.verdict for c in of)
        mean = geometric_mean(c.ratio for c in of)
        base = geometric_mean(c.ratio for c in of if c.row.name == change.new.baseline)
        lines.append(
            [
                Cell(op),
                Cell(str(len(of))),
                *(Cell(str(counts[v])) for v in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)),
                Cell(str(counts[Verdict.UNCLEAR] + counts[None])),
                to_cell(mean, ratio_text),
                to_cell(base, ratio_text),
            ]
        )
    headers = ["operation", "compared", "slower", "faster", "same", "unclear", "now / before"]
    return Table([*headers, f"{change.new.baseline} alone"], lines, caption="Summary")
