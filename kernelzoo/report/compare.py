"""Time ratios of two rows, with a confidence interval if there are enough samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelzoo.measure.condition import DISTURBED
from kernelzoo.measure.measurement import BREAKS
from kernelzoo.measure.statistics import FEWEST, Interval, Verdict, ratio_interval, verdict
from kernelzoo.report import notes
from kernelzoo.report.former_ids import current_id
from kernelzoo.report.results import ComparableRows, Problem, Results, Row, Selection
from kernelzoo.report.table import BLANK, WORDS, Cell, Table, format_number, ratio_text


@dataclass(frozen=True)
class Comparison:
    """The ratio of two rows' times on the same problem, ``row`` / ``base``. Below 1, ``row`` is faster."""

    row: Row
    base: Row
    interval: Interval | None
    """The 95 % confidence interval of the ratio; None if a file has too few samples."""

    @property
    def ratio(self) -> float:
        return self.row.seconds / self.base.seconds if self.interval is None else self.interval.mid

    @property
    def verdict(self) -> Verdict | None:
        return None if self.interval is None else verdict(self.interval, disturbed=self.is_disturbed)

    @property
    def interval_text(self) -> str:
        """The ends of the interval as text, or "" if there is no interval."""
        return "" if self.interval is None else f"{ratio_text(self.interval.low)} to {ratio_text(self.interval.high)}"

    @property
    def cells(self) -> list[Cell]:
        """The ratio, its interval and the verdict."""
        found = self.verdict
        kind = {Verdict.FASTER: "faster", Verdict.SLOWER: "slower"}.get(found, "neutral") if found else WORDS
        verdict = Cell(found.value, kind=kind) if found else BLANK
        return [Cell(ratio_text(self.ratio)), Cell(self.interval_text) if self.interval else BLANK, verdict]

    @property
    def warning_marks(self) -> list[str]:
        """Warnings: "†" if ``row`` is wrong on special values such as NaN, "~" if other work disturbed either row."""
        return notes.marks([*([BREAKS] if self.row.breaks else []), *([DISTURBED] if self.is_disturbed else [])])

    @property
    def is_disturbed(self) -> bool:
        """Whether other work disturbed either row. If so, the verdict is UNCLEAR."""
        return DISTURBED in self.row.flags or DISTURBED in self.base.flags


@dataclass(frozen=True)
class GroupChanges:
    """The changes of one group between an older and a newer run."""

    new: ComparableRows
    old: ComparableRows
    comparisons: tuple[Comparison, ...]
    """The ratio new / old for each implementation and problem that both measured, the worst slowdown first."""
    only_new: tuple[Row, ...]
    only_old: tuple[Row, ...]

    @cached_property
    def _baseline_ratios(self) -> Mapping[tuple[str, Problem], float]:
        return {(c.row.op, c.row.problem): c.ratio for c in self.comparisons if c.row.name == self.new.baseline}

    def table(self, comparisons: Sequence[Comparison], caption: str = "") -> Table:
        """Return a table with a line for each comparison. Its last column divides the ratio by the baseline's ratio."""
        headers = ["implementation", "problem", "before, µs", "now, µs", "now / before", "95 % interval", "verdict"]
        lines = []
        for c in comparisons:
            base = self._baseline_ratios.get((c.row.op, c.row.problem))
            names = [Cell(" ".join([c.row.id, *c.warning_marks])), Cell(c.row.problem.title, kind=WORDS)]
            times = [Cell(format_number(row.microseconds)) for row in (c.base, c.row)]
            lines.append([*names, *times, *c.cells, BLANK if base is None else Cell(ratio_text(c.ratio / base))])
        return Table([*headers, f"now / before, relative to {self.new.baseline}"], lines, caption=caption)


def compare(row: Row, base: Row) -> Comparison:
    """Compare two rows. Samples that were taken in the same rounds are paired, so that a slow round cancels out."""
    interval = None
    if min(len(row.times), len(base.times)) >= FEWEST:
        paired = row.run == base.run and row.race == base.race != "" and len(row.times) == len(base.times)
        interval = ratio_interval(row.times, base.times, paired=paired)
    return Comparison(row, base, interval)


def same_card(row: Row, base: Row) -> bool:
    """Return whether the same card measured both rows. If a row does not name a card, return True."""
    return not (row.gpu and base.gpu) or row.gpu == base.gpu


def compare_to_baseline(selection: Selection) -> Mapping[tuple[Problem, str], Comparison]:
    """Compare every row, except the baseline's, with the baseline's row on the same problem."""
    found = {}
    for (problem, name), row in selection.rows_by_cell.items():
        base = selection.rows_by_cell.get((problem, selection.baseline))
        if base is not None and base is not row:
            found[problem, name] = compare(row, base)
    return found


def index_by_replacement_id(rows: Sequence[Row]) -> dict[tuple[str, Problem], Row]:
    """Index rows by id and problem. A removed kernel's row gets the id of its replacement, unless that id has a row."""
    found = {(current_id(row.id), row.problem): row for row in rows}
    return {**found, **{(row.id, row.problem): row for row in rows if current_id(row.id) == row.id}}


def changes(new: Results, old: Results) -> list[GroupChanges]:
    """Compare the rows that are in both results and have the same device, card, clock and cache state."""
    olds = {(group.device, group.clock, group.cache): group for group in old.groups}
    found = []
    for group in new.groups:
        before = olds.get((group.device, group.clock, group.cache))
        if before is None:
            continue
        rows, bases = index_by_replacement_id(group.rows), index_by_replacement_id(before.rows)
        both = {key for key, row in rows.items() if key in bases and same_card(row, bases[key])}
        comparisons = [compare(row, bases[key]) for key, row in rows.items() if key in both]
        found.append(
            GroupChanges(
                group,
                before,
                tuple(sorted(comparisons, key=lambda c: -c.ratio)),
                tuple(row for key, row in rows.items() if key not in both),
                tuple(row for key, row in bases.items() if key not in both),
            )
        )
    return found
